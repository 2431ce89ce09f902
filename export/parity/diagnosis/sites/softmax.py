"""The softmax within a layer, as that of attention: over another axis, or with a mask that is too weak."""

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from keras_pe.export.model.watch.keras_internals import all_layers, replaced_attributes
from keras_pe.export.parity.diagnosis.edits import Compute, Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import call, given
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause

_AXES = (1, 2, 3)
_WEAK = (1.0, 10.0, 100.0, 1e3, 1e4)
_HIDDEN: dict[str, Callable[[Any, float], Any]] = {
    "{} added to": lambda scores, size: scores - size,
    "{} in the place of": lambda scores, size: 0 * scores - size,
}
_Change = Callable[[Any, Any], tuple[Any, int | None]]
"""Returns other scores, and another axis, for scores and their mask."""


def other_softmax(fault: LayerFault) -> Edits:
    """Yields the layer with the softmax in it over another axis, or with masks that leave weight to what they hide."""
    layer = fault.call.layer
    own = _softmax_layers(layer)
    if not own:
        return
    for size, (said, hidden) in itertools.product(_WEAK, _HIDDEN.items()):
        change = partial(_weakened, size=size, hidden=hidden)
        yield Edit(Cause.WEAK_MASK, f"with {said.format(f'{-size:g}')} a score that a mask hides", _with(change))
    if layer not in own:  # where it is an attribute
        for axis in _AXES:
            yield Edit(Cause.OTHER_AXIS, f"with its softmax over axis={axis}", _with(partial(_over, axis=axis)))


def _softmax_layers(layer: Any) -> list[Any]:
    import keras

    layers = all_layers(layer) if isinstance(layer, keras.Layer) else []
    return [each for each in layers if isinstance(each, keras.layers.Softmax)]


def _with(change: _Change) -> Compute:
    """Returns the edit that changes what each softmax in a layer works on."""

    def compute(fault: LayerFault) -> Array:
        layer, arguments = fault.call.layer, given(fault)
        if hasattr(layer, "key_dim"):  # attention goes through its softmax where the scores are asked for
            arguments["return_attention_scores"] = True
        with ExitStack() as stack:
            for each in _softmax_layers(layer):
                called = partial(_called, each.axis, each.call, change)
                stack.enter_context(replaced_attributes(each, {"call": called}))
            return call(layer, arguments, fault)

    return compute


def _called(axis: Any, usual: Callable[..., Any], change: _Change, inputs: Any, mask: Any = None) -> Any:
    import keras

    scores, other = change(inputs, mask)
    if scores is inputs and other is None:
        return usual(inputs, mask=mask)
    return keras.ops.softmax(scores, axis=axis if other is None else other)


def _over(scores: Any, mask: Any, axis: int) -> tuple[Any, int]:
    import keras

    return (scores if mask is None else keras.ops.where(mask, scores, -1e9)), axis


def _weakened(scores: Any, mask: Any, size: float, hidden: Callable[[Any, float], Any]) -> tuple[Any, None]:
    import keras

    return (scores if mask is None else keras.ops.where(mask, scores, hidden(scores, size))), None
