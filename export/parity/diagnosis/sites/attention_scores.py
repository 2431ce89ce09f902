"""What attention scores may have become: masks left out, inverted or shifted, others of each row, another scale."""

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import all_layers, replaced_attributes
from keras_pe.export.parity.diagnosis.edits import Compute, Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, as_tensor, call, given
from keras_pe.export.parity.diagnosis.sites.attributes import with_arguments
from keras_pe.export.results import Array, Cause

_AXES = (1, 2, 3)
_WEAK = (1.0, 10.0, 100.0, 1e3, 1e4)
_HIDDEN: dict[str, Callable[[Any, float], Any]] = {
    "{} added to": lambda scores, size: scores - size,
    "{} in the place of": lambda scores, size: 0 * scores - size,
}
_Change = Callable[[Any, Any], tuple[Any, int | None]]
"""Returns other scores, and another axis, for scores and their mask."""


def other_masks(fault: LayerFault) -> Edits:
    """Yields the layer without its masks, all and then each, with others; with and without a causal one."""
    import keras

    layer = fault.call.layer
    try:
        arguments = given(fault)
    except TypeError:
        return

    names = [
        name
        for name, value in arguments.items()
        if "mask" in name and value is not None and any(map(keras.ops.is_tensor, keras.tree.flatten(value)))
    ]
    for dropped in [names, *([name] for name in names)] if len(names) > 1 else [names] if names else []:
        said = f"without {' and '.join(f'`{name}`' for name in dropped)}"
        yield with_arguments(Cause.DROPPED_MASK, said, partial(without_masks, dropped))
    for name in names:
        yield with_arguments(Cause.INVERTED_MASK, f"with `{name}` inverted", partial(_inverted, name))
    yield from _shifted(arguments, names)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = Cause.ADDED_CAUSAL_MASK if causal else Cause.DROPPED_CAUSAL_MASK
        yield with_arguments(cause, f"with use_causal_mask={causal}", lambda _: {"use_causal_mask": causal})


def _shifted(arguments: Mapping[str, Any], names: list[str]) -> Edits:
    """Yields masks of one step for another that let through one step less or more, the causal one too."""
    import keras

    tensors = [name for name in names if keras.ops.is_tensor(arguments[name]) and len(arguments[name].shape) > 2]
    for name, step in itertools.product(tensors, (-1, 1)):
        rolled = partial(_rolled, name=name, step=step)
        yield with_arguments(Cause.SHIFTED_MASK, f"with `{name}` shifted by {step}", rolled)
    if arguments.get("use_causal_mask") and {"query", "value"} <= set(arguments):
        for step in (-1, 1):
            said = f"with a causal mask shifted by {step}"
            yield with_arguments(Cause.SHIFTED_MASK, said, partial(_causal, step=step))


def without_masks(names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments without some masks, nor those that Keras keeps on tensors, where layers inside find them."""
    import keras

    def plain(leaf: Any) -> Any:
        return as_tensor(as_array(leaf)) if keras.ops.is_tensor(leaf) else leaf

    return {**keras.tree.map_structure(plain, dict(arguments)), **dict.fromkeys(names)}


def _inverted(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import keras

    return {name: keras.ops.logical_not(arguments[name])}


def _rolled(arguments: Mapping[str, Any], name: str, step: int) -> dict[str, Any]:
    mask = np.roll(as_array(arguments[name]), step, -1)
    mask[..., -1 if step < 0 else 0] = step > 0
    return {name: as_tensor(mask)}


def _causal(arguments: Mapping[str, Any], step: int) -> dict[str, Any]:
    mask = np.tri(arguments["query"].shape[1], arguments["value"].shape[1], step, dtype=bool)[None]
    return {"use_causal_mask": False, "attention_mask": as_tensor(mask)}


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
