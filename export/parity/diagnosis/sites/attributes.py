"""Edits of a layer's attributes: other values, fitted numbers, and conventions that change two attributes."""

import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_attributes
from keras_pe.export.parity.diagnosis.relations import is_number
from keras_pe.export.parity.diagnosis.sites.activations import activations, own_numbers
from keras_pe.export.parity.diagnosis.sites.other_values import cause_of, is_plain, other_value, other_values
from keras_pe.export.parity.diagnosis.stored_constants import stored_instead
from keras_pe.export.results import Cause

_CHOICES: dict[str, tuple[Any, ...]] = {
    "padding": ("valid", "same", "causal"),
    "layout": ("concatenated", "interleaved"),
    "combine": ("add", "replace"),
    "interpolation": ("nearest", "bilinear", "bicubic", "lanczos3"),
    "merge_mode": ("sum", "mul", "concat", "ave"),
    "data_format": ("channels_last", "channels_first"),
    "axis": tuple(range(-1, 4)),
    "max_value": (None, 6.0, 1.0),
    "threshold": (0.0, 0.01, 0.1, 0.5, 1.0),
    "max_length": (None, 1, 16, 64, 256),
}
_OF_EVERY_AXIS = {
    "strides": (1, 2, 3, 4),
    "dilation_rate": (1, 2, 3, 4),
    "pool_size": (1, 2, 3, 4),
    "size": (1, 2, 3, 4),
}
_OF_WINDOWS = ("strides", "padding", "dilation_rate", "pool_size")  # attributes that may differ in pairs
_OF_WEIGHTS = ("use_bias", "reset_after", "center", "scale")  # attributes that may differ in pairs as well
_UNTRIED = {"name", "start_index", "dtype", "trainable", "seed", "quantization_config", "autocast", "sparse"}
_UNTRIED |= {"dropout", "rate", "recurrent_dropout", "momentum"}  # attributes without effect in inference
_MOST_TOGETHER = 4  # numbers of a layer that are fitted together


def other_attributes(fault: LayerFault) -> Edits:
    """Yields the layer with each of its attributes changed; the activations come last, since there are many."""
    layer = fault.call.layer
    config = _config_of(layer)
    for name, value in sorted(config.items(), key=lambda item: item[0].endswith("activation")):
        for shown, other in itertools.chain(_stored_lists(fault, name, value), _other_values(name, value)):
            yield other_value(name, value, shown, {name: other})
    yield from _windows(config)
    for pair in itertools.combinations([name for name in _OF_WEIGHTS if isinstance(config.get(name), bool)], 2):
        yield other_values(config, {name: not config[name] for name in pair})
    if (kind := _sibling(layer)) is not None:
        yield Edit(Cause.OTHER_OPERATION, f"as a {kind.__name__}", partial(with_attributes, change={}, kind=kind))
    yield from _conventions(config)
    yield from _numbers(fault, config)
    yield from own_numbers(layer, config)
    yield from _within(config)


def _config_of(layer: Any) -> dict[str, Any]:
    """Returns the attributes of a layer, or of an operation of a functional model, which has no configuration."""
    if hasattr(layer, "variables"):
        return dict(layer.get_config()) if hasattr(layer, "get_config") else {}
    names = inspect.signature(type(layer).__init__).parameters
    own = {name: getattr(layer, name) for name in names if hasattr(layer, name) and name not in _UNTRIED}
    return {name: value for name, value in own.items() if is_plain(value) or isinstance(value, list | tuple)}


def _within(config: Mapping[str, Any]) -> Edits:
    """Yields changed attributes of inner layers, such as the two of a `Bidirectional`, in all of them at once."""
    parts = {name: value for name, value in config.items() if isinstance(value, dict) and "build_config" in value}
    names = dict.fromkeys(name for value in parts.values() for name in value["config"])
    for name in sorted(names, key=lambda name: name.endswith("activation")):
        by_part = {key: value["config"][name] for key, value in parts.items() if name in value["config"]}
        first = next(iter(by_part.values()))
        for shown, other in _other_values(name, first):
            change = {key: {**parts[key], "config": {**parts[key]["config"], name: other}} for key in by_part}
            found = other_value(name, first, shown, change)
            yield replace(found, description=f"holding layers {found.description}")


def _windows(config: Mapping[str, Any]) -> Edits:
    """Yields a convolution or a pooling with two changed attributes of its windows."""
    names = [name for name in _OF_WINDOWS if name in config]
    for pair in itertools.combinations(names, 2):
        others = ([*_plain_values(name, config[name])] for name in pair)
        # Values that are equal on all axes suffice for pairs of attributes.
        alike = [[each for each in own if not isinstance(each, tuple) or len({*each}) == 1] for own in others]
        for values in itertools.product(*alike):
            yield other_values(config, dict(zip(pair, values, strict=True)))


def _conventions(config: Mapping[str, Any]) -> Edits:
    """Yields a position encoding with two changed attributes, since a convention often has both."""
    if not {"layout", "endpoint", "start_index"} <= set(config):
        return
    endpoint = {"endpoint": not config["endpoint"]}
    layouts = [layout for _, layout in _other_values("layout", config["layout"])]
    changes = [{**endpoint, "layout": layout} for layout in layouts]
    if isinstance(config["start_index"], int):
        changes += [{**endpoint, "start_index": config["start_index"] + k} for k in (1, -1, 2)]
        changes += [{"layout": layout, "start_index": config["start_index"] + k} for layout in layouts for k in (1, -1)]
    for change in changes:
        yield other_values(config, change, cause=Cause.OTHER_CONVENTION)


def _numbers(fault: LayerFault, config: Mapping[str, Any]) -> Edits:
    """Yields each number of the layer, private ones included, with a fitted value; then all numbers together."""
    # An integer may stand for a float if the layer computes each value on its own.
    shapes = {array.shape for array in fault.call.inputs}
    takes_floats = not getattr(fault.call.layer, "weights", ()) and fault.expected.shape in shapes
    numbers = {name: v for name, v in config.items() if name not in _UNTRIED and is_number(v)}
    own = {name: v for name, v in numbers.items() if takes_floats or isinstance(v, float)}
    private = {n: v for n, v in vars(fault.call.layer).items() if n.startswith("_") and isinstance(v, float)}
    values = {**own, **private}
    together = [tuple(values)] if 1 < len(values) <= _MOST_TOGETHER else []
    for names in [*((name,) for name in values), *together]:
        start = {name: values[name] for name in names}
        yield NumericEdit(start, with_attributes, cause_of)


def _other_values(name: str, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the values that an attribute might have by mistake, each after the value to report."""
    if name.endswith("activation"):
        yield from ((own, function) for own, function in activations().items() if own != value)
    else:
        others = _other_numbers(value) if _is_of_numbers(value) else _plain_values(name, value)
        yield from ((other, other) for other in others)


def _is_of_numbers(value: Any) -> bool:
    """Whether an attribute is an array of floats, or a nested list of floats, such as a variance."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(each, float) or _is_of_numbers(each) for each in value)
    return isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind == "f"


def _stored_lists(fault: LayerFault, name: str, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields 1-D constants of the artifact that may be the value of an attribute.

    They have the length of the attribute. Boundaries of bins may have any length, in ascending order.
    """
    own = np.asarray(value) if _is_of_numbers(value) else np.zeros(0)
    if own.ndim != 1 or not own.size:
        return
    for row in fault.around.constants():
        is_of_bins = name == "bin_boundaries" and row.ndim == 1 and bool((np.diff(row) > 0).all())
        for numbers in stored_instead((np.resize(own, row.shape) if is_of_bins else own).tolist(), [row]):
            yield numbers, numbers


def _other_numbers(value: Any) -> Iterator[Any]:
    """Yields likely replacements of numbers: their roots, their squares, zeros, and ones."""
    numbers = np.asarray(value)
    makers = (np.sqrt, np.square, np.zeros_like, np.ones_like)
    yield from (make(numbers).tolist() for make in (makers if (numbers > 0).all() else makers[2:]))


def _plain_values(name: str, value: Any) -> Iterator[Any]:
    if name in _UNTRIED or name.endswith(("_initializer", "_regularizer", "_constraint")):
        return
    if isinstance(value, bool):
        yield not value
    elif name in ("padding", "cropping") and isinstance(value, list | tuple):
        yield from _on_other_sides(value)
        yield from _other_widths(value)
    elif name == "axis" and isinstance(value, list | tuple):
        yield from other_axes(value)
    elif name in _OF_EVERY_AXIS and isinstance(value, list | tuple):
        alike = [(k,) * len(value) for k in _OF_EVERY_AXIS[name]]
        one_axis = [(*value[:axis], k, *value[axis + 1 :]) for axis in range(len(value)) for k in _OF_EVERY_AXIS[name]]
        others = dict.fromkeys((*alike, *one_axis, tuple(value)[::-1]))
        yield from (other for other in others if other != tuple(value))
    elif name in _CHOICES and not isinstance(value, dict | list | tuple):
        yield from (other for other in _CHOICES[name] if other != value)
    elif isinstance(value, int):
        yield from dict.fromkeys((2 * value, value // 2, value + 1, value - 1, 0, -value))


def _on_other_sides(widths: Any) -> Iterator[Any]:
    """Yields other sides of a padding or cropping.

    All of it moves to one side, the sides are exchanged, or one element moves; on all axes and on each axis alone.
    """
    pairs = [tuple(pair) if isinstance(pair, list | tuple) else None for pair in widths]
    flat = None in pairs
    for other_sides in (
        *(lambda a, b: (0, a + b), lambda a, b: (a + b, 0), lambda a, b: (b, a)),
        *(lambda a, b: (a - 1, b + 1), lambda a, b: (a + 1, b - 1)),
    ):
        others: list[Any] = [other_sides(*widths)] if flat else []
        if not flat:
            moved = [other_sides(*pair) for pair in pairs if pair is not None]
            others = [tuple(moved), *((*pairs[:n], each, *pairs[n + 1 :]) for n, each in enumerate(moved))]
        yield from (other for other in others if other != (tuple(widths) if flat else tuple(pairs)))


def _other_widths(widths: Any) -> Iterator[Any]:
    """Yields other widths of a padding or cropping: on all sides, along one axis, and on one side."""
    own = np.asarray(widths)
    places = [np.ones_like(own), *np.eye(own.size, dtype=own.dtype).reshape(own.size, *own.shape)]
    if own.ndim == 2:
        places[1:1] = [np.repeat(row[:, np.newaxis], 2, axis=1) for row in np.eye(len(own), dtype=own.dtype)]
    for place, step in itertools.product(places, (1, -1, 2, -2)):
        other = own + step * place
        if (other >= 0).all():
            yield tuple(map(tuple, other.tolist())) if own.ndim == 2 else tuple(other.tolist())


def other_axes(value: Any) -> Iterator[list[int]]:
    """Yields the sets of axes that a layer might use by mistake, without the batch axis."""
    own = list(value) if isinstance(value, list | tuple) else [value]
    yield from (axes for axes in ([-1], [1], [2], [3], [1, 2], [1, 2, 3], [2, 3], [1, 3]) if axes != own)


def _sibling(layer: Any) -> type | None:
    """Returns the maximum pooling for an average pooling, and the reverse; None for other layers."""
    import keras

    name = type(layer).__name__
    other = name.replace("Average", "Max") if "Average" in name else name.replace("Max", "Average")
    kind = getattr(keras.layers, other, None) if other != name and "Pooling" in name else None
    return kind if isinstance(kind, type) else None
