"""The stage of an export that traces the model: with free sizes, or else with as few fixed sizes as possible."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from keras_pe.export.errors import ExportError, TracingError
from keras_pe.export.model.signature.choose_fixed_sizes import names_to_fix, sizes_to_fix, with_fixed_sizes
from keras_pe.export.model.signature.model_signature import written_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.pipeline.target_format import Traced

Trace = Callable[[Sequence[Any], Signature], Traced]


def traced_at_sizes(trace: Trace, layers: Sequence[Any], signature: Signature, *, may_fix: bool) -> Traced:
    """Returns the traced model. A size stays free if Keras can trace the model with that size free.

    Args:
        trace: Traces the model. It raises TracingError if Keras cannot trace it.
        layers: The model, then every layer in it.
        signature: The model's signature.
        may_fix: Whether the export may fix a free size. It may not if the caller passes an `input_signature`.

    Raises:
        ExportError: If Keras cannot trace the model, or the format refuses the model. A TracingError names the sizes
            to fix.
    """
    try:
        return trace(layers, signature)
    except TracingError as error:
        refusal = error
    known = sizes_to_fix(layers[0], signature)
    sizes = {**signature.sizes, **{name: each.size for name, each in known.items()}}

    def is_traced(names: Collection[str]) -> bool:
        return _is_traceable(trace, layers, signature.fix_sizes({name: sizes[name] for name in names}))

    needed = names_to_fix(signature, is_traced)
    if not needed:
        raise refusal
    if may_fix and needed <= known.keys():
        fixed = [known[name] for name in signature.dimensions if name in needed]
        return trace(layers, with_fixed_sizes(layers[0], signature, fixed, refusal.reason))
    shapes, dtypes = zip(*((spec.shape, spec.dtype) for spec in signature.inputs), strict=True)
    written = written_signature(shapes, dtypes, {name: sizes[name] for name in needed})
    raise refusal.with_evidence(f"Keras can trace it if these sizes are fixed: {written}.") from refusal.__cause__


def _is_traceable(trace: Trace, layers: Sequence[Any], signature: Signature) -> bool:
    try:
        trace(layers, signature)
    except TracingError:
        return False
    except ExportError:  # another refusal is not about sizes, and the trace of the caller raises it again
        return True
    return True
