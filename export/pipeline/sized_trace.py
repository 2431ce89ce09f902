"""The stage of an export that traces the model: with free sizes, else with as few fixed sizes as possible."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from keras_pe.export.errors import ExportError, TracingError
from keras_pe.export.model.signature.fixing import names_to_fix, sizes_to_fix, with_fixed_sizes
from keras_pe.export.model.signature.model_signature import written_signature
from keras_pe.export.model.signature.signature import Signature

_Traced = TypeVar("_Traced")
Trace = Callable[[Sequence[Any], Signature], _Traced]


def traced_at_sizes(trace: Trace[_Traced], layers: Sequence[Any], signature: Signature, *, may_fix: bool) -> _Traced:
    """Returns the traced model. A size stays free if a trace exists in which it is free.

    Args:
        trace: Traces the model. It raises TracingError if Keras cannot trace it.
        layers: The model, then every layer in it.
        signature: Its signature.
        may_fix: Whether a free size may be fixed: not if the caller asks for it in `input_signature`.

    Raises:
        ExportError: If the model cannot be traced, or may not leave Keras. A TracingError says which sizes help.
    """
    try:
        return trace(layers, signature)
    except TracingError as error:
        refusal = error
    known = sizes_to_fix(layers[0], signature)
    sizes = {**signature.sizes, **{name: each.size for name, each in known.items()}}

    def is_traced(names: Collection[str]) -> bool:
        return _is_traceable(trace, layers, signature.fixed({name: sizes[name] for name in names}))

    needed = names_to_fix(signature, is_traced)
    if not needed:
        raise refusal
    if may_fix and needed <= known.keys():
        fixed = [known[name] for name in signature.dimensions if name in needed]
        return trace(layers, with_fixed_sizes(layers[0], signature, fixed, refusal.reason))
    shapes, dtypes = zip(*((spec.shape, spec.dtype) for spec in signature.inputs), strict=True)
    written = written_signature(shapes, dtypes, {name: sizes[name] for name in needed})
    way_out = f" It is traced at fixed sizes; fix them: {written}."
    raise TracingError(refusal.format, refusal.model, refusal.reason + way_out) from refusal.__cause__


def _is_traceable(trace: Trace[Any], layers: Sequence[Any], signature: Signature) -> bool:
    try:
        trace(layers, signature)
    except TracingError:
        return False
    except ExportError:  # a refusal for another reason, which the caller's own trace repeats
        return True
    return True
