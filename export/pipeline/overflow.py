"""Refuses an artifact in half precision if outputs of the model are NaN or infinite, and finite in float32."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.differences import wide
from keras_pe.export.comparison.float_types import BEYOND, EPSILON, is_float, largest
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import RuntimeRefusedError, UnsupportedError
from keras_pe.export.model.rebuild import half_dtypes
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.recording import LayerCall, record_calls
from keras_pe.export.results import Array


def refuse_overflow(
    reference: KerasReference, format: Format, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> None:
    """Raises UnsupportedError if the float type of a model in half precision has too small a range for the outputs.

    Args:
        reference: The model as exported.
        format: The format, for the error.
        inputs: The inputs of a run.
        outputs: The outputs of the artifact in the run.
    """
    dtypes = half_dtypes(all_layers(reference.model))
    if not dtypes:
        return
    try:
        narrow = reference.expect(inputs)
        # An artifact may return numbers where the model returns NaN. The comparison ignores such numbers.
        pairs = {name: [wide(own), wide(narrow[name])] for name, own in outputs.items() if is_float(own.dtype)}
        if np.all([np.isfinite(own).all() for both in pairs.values() for own in both]):
            return
        if reference.float32_model is None:  # a rebuild takes memory, so it is made last
            return
        right = reference.expect_in_float32(inputs)
    except RuntimeRefusedError:
        return
    lost = {name: int(np.any([_lost(own, right[name]) for own in both], axis=0).sum()) for name, both in pairs.items()}
    output = next((name for name, count in lost.items() if count), None)
    if output is None:
        return
    reason = (
        f"{lost[output]:,} of {outputs[output].size:,} values of output {output!r} are NaN or infinite in half "
        "precision, and finite in float32."
    )
    layer = None
    if (found := _first_overflow(reference, inputs)) is not None:
        layer, reached = found.layer_path, max(largest(wide(each), 0.0) for each in found.outputs)
        end, dtype = min((BEYOND[each] * (1 - EPSILON[each] / 2), each) for each in dtypes)
        reason += f" The first such layer is {layer!r}. In float32, its outputs reach {reached:.3g}, and "
        reason += "" if reached > end else f"a number inside it exceeds the range of {dtype}: "
        reason += f"{dtype} ends at {end:,.6g}."
    reason += " Export the model in float32. If it takes smaller values, pass examples of them as `inputs`."
    raise UnsupportedError(format, reference.name, reason, layer=layer)


def _first_overflow(reference: KerasReference, inputs: Mapping[str, Array]) -> LayerCall | None:
    """Returns the float32 call of the first layer that makes finite inputs NaN or infinite; None if unknown."""
    narrow, wider = (
        record_calls(model, partial(reference.predict, model, inputs))
        for model in (reference.model, reference.float32_model)
    )
    right = {call.path: call for call in wider}
    pairs = ((call, right[call.path]) for call in narrow if call.path in right)
    return next((b for a, b in pairs if _are_lost(a.outputs, b.outputs) and not _are_lost(a.inputs, b.inputs)), None)


def _are_lost(narrow: Sequence[Array], right: Sequence[Array]) -> bool:
    """Whether an array has NaNs or infinities that are finite in float32."""
    pairs = [(own, other) for own, other in zip(narrow, right, strict=True) if is_float(own.dtype)]
    return any(_lost(own, other).any() for own, other in pairs)


def _lost(own: Array, right: Array) -> Array:
    """Returns where an array is NaN or infinite, and finite in float32."""
    is_lost: Array = ~np.isfinite(wide(own)) & np.isfinite(wide(right))
    return is_lost
