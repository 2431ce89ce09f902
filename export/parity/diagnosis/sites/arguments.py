"""Edits of arguments of a call, masks above all, of softmaxes within a layer, and of several layers at once."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit, edits_of_makers
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, arguments_of, as_array, as_tensor, call
from keras_pe.export.parity.diagnosis.relations import is_number, plain
from keras_pe.export.parity.diagnosis.stored_constants import stored_instead
from keras_pe.export.results import Array, Cause, OtherValue

_AXES = (1, 2, 3)
_WEAK = (1.0, 10.0, 100.0, 1e3, 1e4)
_TRAINING = {"training": True}
_HIDING = (1e9, np.inf, 1e4)
_HIDDEN: dict[str, Callable[[Any, float], Any]] = {
    "{} added to": lambda scores, size: scores - size,
    "{} instead of": lambda scores, size: 0 * scores - size,
}
_Change = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Changed arguments by name, or a function that makes them of the arguments of a layer."""


def other_arguments(fault: LayerFault) -> Edits:
    """Yields the layer without each optional argument, with other numbers as arguments, and in training mode."""
    parameters = inspect.signature(fault.call.layer.call).parameters
    for name, value in arguments_of(fault).items():
        if parameters[name].default is None and "mask" not in name and _has_tensors(value):
            yield _with(Cause.DROPPED_INPUT, f"without `{name}`", {name: None})
        if is_number(value) and (isinstance(value, float) or fault.expected.dtype.kind == "f"):
            yield _other_number(name, value)
        yield from _stored_numbers(fault, name, value)
    if "training" in parameters:
        by = ", by the statistics of the batch" if hasattr(fault.call.layer, "moving_mean") else ""
        yield _with(Cause.TRAINING_MODE, f"as in training{by}", _TRAINING)


def _other_number(name: str, own: float) -> NumericEdit:
    """Returns the edit that fits a number among the arguments of a call, such as a limit of `keras.ops.minimum`."""

    def compute(fault: LayerFault, numbers: Mapping[str, float]) -> Array:
        return call(fault.call.layer, {**arguments_of(fault), **numbers}, fault)

    return NumericEdit({name: own}, compute, lambda names: Cause.attribute(*names))


def _stored_numbers(fault: LayerFault, name: str, own: Any) -> Iterator[Edit]:
    """Yields the layer with an argument from the artifact's constants, such as a threshold, which cannot be fitted."""
    for other in stored_instead(own, fault.around.constants()):
        is_array = isinstance(own, np.ndarray)
        description = f"with other values of {name}" if is_array else f"with {name}={other} instead of {own}"
        edit = _with(Cause.attribute(name), description, {name: other})
        yield replace(edit, parameters=(OtherValue(name, plain(own), plain(other)),))


def other_makers(fault: LayerFault) -> Edits:
    """Yields the layer after another number in the operation that returns a mask or integers to it."""
    yield from edits_of_makers(fault, _other_stored_numbers, "biu")


def _other_stored_numbers(fault: LayerFault) -> Iterator[Edit]:
    for name, value in arguments_of(fault).items():
        yield from _stored_numbers(fault, name, value)


def other_masks(fault: LayerFault) -> Edits:
    """Yields the layer without its masks, with changed masks, and with and without a causal mask."""
    try:
        arguments = arguments_of(fault)
    except TypeError:
        return
    names = [name for name, value in arguments.items() if "mask" in name and value is not None and _has_tensors(value)]
    for dropped in [names, *([name] for name in names)] if len(names) > 1 else [names] if names else []:
        description = f"without {' and '.join(f'`{name}`' for name in dropped)}"
        yield _with(Cause.DROPPED_MASK, description, partial(_without_masks, dropped))
    for name in names:
        yield _with(Cause.INVERTED_MASK, f"with `{name}` inverted", partial(_invert, name))
    parameters = inspect.signature(fault.call.layer.call).parameters
    if {"query_mask", "value_mask"} <= set(names) and "attention_mask" in parameters:
        yield _with(Cause.INVERTED_MASK, "with its masks of padding inverted together", _inverted_padding)
    yield from _shifted_masks(arguments, names)
    if "use_causal_mask" in parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = Cause.ADDED_CAUSAL_MASK if causal else Cause.DROPPED_CAUSAL_MASK
        yield _with(cause, f"with use_causal_mask={causal}", {"use_causal_mask": causal})


def _shifted_masks(arguments: Mapping[str, Any], names: list[str]) -> Edits:
    """Yields masks, including the causal one, that are shifted by one step."""
    import keras

    tensors = [name for name in names if keras.ops.is_tensor(arguments[name]) and len(arguments[name].shape) > 2]
    for name, step in itertools.product(tensors, (-1, 1)):
        rolled = partial(_roll, name=name, step=step)
        yield _with(Cause.SHIFTED_MASK, f"with `{name}` shifted by {step}", rolled)
    if arguments.get("use_causal_mask") and {"query", "value"} <= set(arguments):
        for step in (-1, 1):
            description = f"with a causal mask shifted by {step}"
            yield _with(Cause.SHIFTED_MASK, description, partial(_causal, step=step))


def _with(cause: Cause, description: str, change: _Change) -> Edit:
    """Returns the edit that changes arguments of a call by a function of its own arguments."""

    def compute(fault: LayerFault) -> Array:
        arguments = arguments_of(fault)
        return call(fault.call.layer, {**arguments, **_resolve(change, arguments)}, fault)

    return Edit(cause, description, compute)


def _resolve(change: _Change, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return change(arguments) if callable(change) else change


def _has_tensors(value: Any) -> bool:
    import keras

    return any(map(keras.ops.is_tensor, keras.tree.flatten(value)))


def _without_masks(names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments without some masks and without the masks that Keras attaches to tensors."""
    import keras

    def plain(leaf: Any) -> Any:
        return as_tensor(as_array(leaf)) if keras.ops.is_tensor(leaf) else leaf

    return {**keras.tree.map_structure(plain, dict(arguments)), **dict.fromkeys(names)}


def _invert(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import keras

    return {name: keras.ops.logical_not(arguments[name])}


def _inverted_padding(arguments: Mapping[str, Any]) -> dict[str, Any]:
    queries, values = (as_array(arguments[name]) for name in ("query_mask", "value_mask"))
    mask = ~(queries[:, :, np.newaxis] & values[:, np.newaxis])
    return {"query_mask": None, "value_mask": None, "attention_mask": as_tensor(mask)}


def _roll(arguments: Mapping[str, Any], name: str, step: int) -> dict[str, Any]:
    mask = np.roll(as_array(arguments[name]), step, -1)
    mask[..., -1 if step < 0 else 0] = step > 0
    return {name: as_tensor(mask)}


def _causal(arguments: Mapping[str, Any], step: int) -> dict[str, Any]:
    mask = np.tri(arguments["query"].shape[1], arguments["value"].shape[1], step, dtype=bool)[None]
    return {"use_causal_mask": False, "attention_mask": as_tensor(mask)}


def other_softmax(fault: LayerFault) -> Edits:
    """Yields the layer with its softmax over another axis, or with masks that do not hide values completely."""
    import keras

    layer = fault.call.layer
    layers = all_layers(layer) if isinstance(layer, keras.Layer) else [layer]
    own = [each for each in layers if _is_softmax(each)]
    if not own:
        return
    for size, (description, hidden) in itertools.product(_HIDING, _HIDDEN.items()):
        description = f"with a causal mask before its softmax, {description.format(f'{-size:g}')} a score"
        yield _inside(Cause.ADDED_CAUSAL_MASK, description, own, partial(_hide_later, size, hidden))
    for size, (description, hidden) in itertools.product(_WEAK, _HIDDEN.items()):
        description = f"with {description.format(f'{-size:g}')} a score that a mask hides"
        yield _inside(Cause.WEAK_MASK, description, own, partial(_weaken, size, hidden))
    if layer not in own:  # for the layer itself, the axis is an attribute
        for axis in _AXES:
            yield _inside(Cause.OTHER_AXIS, f"with its softmax over axis={axis}", own, partial(_over, axis))


def _is_softmax(layer: Any) -> bool:
    """Whether a layer, or an operation of a functional model, is a softmax alone."""
    activation = getattr(layer, "activation", None) if type(layer).__name__ == "Activation" else None
    return type(layer).__name__ == "Softmax" or getattr(activation, "__name__", "") == "softmax"


def _hide_later(
    size: float, hidden: Callable[[Any, float], Any], usual: Callable[..., Any], scores: Any, *mask: Any, **named: Any
) -> Any:
    import keras

    is_past = as_tensor(np.tri(*scores.shape[-2:], dtype=bool))
    return usual(keras.ops.where(is_past, scores, hidden(scores, size)), *mask, **named)


def _weaken(
    size: float, hidden: Callable[[Any, float], Any], usual: Callable[..., Any], scores: Any, mask: Any = None
) -> Any:
    import keras

    return usual(scores if mask is None else keras.ops.where(mask, scores, hidden(scores, size)))


def _over(axis: int, _: Callable[..., Any], scores: Any, mask: Any = None) -> Any:
    import keras

    return keras.ops.softmax(scores if mask is None else keras.ops.where(mask, scores, -1e9), axis=axis)


def several_layers(fault: LayerFault) -> Edits:
    """Yields a model without its masks, and with all its normalizations in training mode."""
    import keras

    layers = all_layers(fault.call.layer.model)
    masking = [each for each in layers if getattr(each, "mask_zero", False) or isinstance(each, keras.layers.Masking)]
    if masking:
        masked, description = (
            [each for each in layers if _masks(each.call)],
            f"without the masks of {_list_names(masking)}",
        )
        yield _inside(Cause.DROPPED_MASK, description, masked, _called_without_masks, of="the model")
    normalizations = [layer for layer in layers if hasattr(layer, "moving_mean")]
    if len(normalizations) > 1:
        description = f"with {_list_names(normalizations)} as in training, by the statistics of the batch"
        called = partial(_call_with, _TRAINING)
        yield _inside(Cause.TRAINING_MODE, description, normalizations, called, of="the model")


def _list_names(layers: Sequence[Any]) -> str:
    return ", ".join(repr(layer.name) for layer in layers)


def _masks(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the arguments that are masks."""
    return [name for name in inspect.signature(function).parameters if "mask" in name]


def _inside(
    cause: Cause, description: str, layers: Iterable[Any], function: Callable[..., Any], of: str = "the layer"
) -> Edit:
    """Returns the edit that replaces the calls of layers within a layer.

    Args:
        cause, description, of: As in `Edit`.
        layers: The layers.
        function: The replacement of their calls. It takes the usual call and its arguments.
    """
    replaced = [(layer, "call", function) for layer in layers]

    def compute(fault: LayerFault) -> Array:
        layer, arguments = fault.call.layer, arguments_of(fault)
        if "return_attention_scores" in inspect.signature(layer.call).parameters:
            arguments["return_attention_scores"] = True  # attention goes through its softmax only then
        with replaced_functions(replaced):
            return call(layer, arguments, fault)

    return Edit(cause, description, compute, of=of)


def _call_with(change: _Change, usual: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    bound = inspect.signature(usual).bind(*args, **keywords)
    bound.arguments.update(_resolve(change, bound.arguments))
    return usual(*bound.args, **bound.kwargs)


def _called_without_masks(usual: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    return _call_with(partial(_without_masks, _masks(usual)), usual, *args, **keywords)
