"""The layer at fault with something of its own changed: an attribute, a pair of them, a number, a weight."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.again import (
    Variant,
    as_array,
    first_steps,
    with_attributes,
    with_numbers,
    with_weight,
)
from keras_pe.export.parity.diagnosis.alternatives import UNTRIED, other_axes, other_values, sibling
from keras_pe.export.parity.diagnosis.fitting import fit_to_fault
from keras_pe.export.parity.diagnosis.probe import EXPLAINS, LayerFault, distance
from keras_pe.export.results import Array

_CAUSES = {
    "layout": "wrong layout",
    "start_index": "start index off",
    "endpoint": "other convention",
    "max_timescale": "other convention",
    "min_timescale": "other convention",
}
_MOST_TOGETHER = 4  # numbers of a layer that are fitted together
_MOVED = 1e-3  # of a number: below that it has stayed what it was


def changed_layers(fault: LayerFault) -> Iterator[Variant]:
    """Yields the layer with each thing of its own changed, the likeliest first."""
    if hasattr(fault.call.layer, "get_config") and hasattr(fault.call.layer, "variables"):
        yield from _attributes(fault)
        yield from _pairs_of_attributes(fault)
        yield from _axes(fault)
        yield from _weights(fault)
        yield from _numbers(fault)


def _attributes(fault: LayerFault) -> Iterator[Variant]:
    layer, begun = fault.call.layer, first_steps(fault)
    activations_last = sorted(layer.get_config().items(), key=lambda item: item[0].endswith("activation"))
    for name, value in activations_last:  # there are many of them
        for said, other in other_values(name, value):
            text = f"With {name}={said} instead of {_said(value)} the layer gives the artifact's numbers."
            is_activation = name.endswith("activation")
            change = with_attributes if begun is None or not is_activation else partial(_if_it_begins_so, begun)
            yield _CAUSES.get(name, f"other {name}"), text, partial(change, fault, {name: other})
    kind = sibling(layer)
    if kind is not None:
        text = f"A {kind.__name__} gives the artifact's numbers."
        yield "other operation", text, partial(with_attributes, fault, {}, kind)


def _if_it_begins_so(begun: LayerFault, fault: LayerFault, change: dict[str, Any]) -> Array | None:
    """Returns what a recurrent layer gives with other attributes, if its first steps are not those of another."""
    assert begun.actual is not None
    left, error = distance(begun.actual, with_attributes(begun, change)), distance(begun.actual, begun.expected)
    may_be_it = error <= begun.tolerance or left <= max(EXPLAINS * error, begun.tolerance)
    return with_attributes(fault, change) if may_be_it else None


def _said(value: Any) -> str:
    """Returns an attribute in a word: a function that was described is said by its name."""
    described = isinstance(value, dict) and isinstance(value.get("config"), str)
    return repr(value["config"]) if described else repr(value)


def _pairs_of_attributes(fault: LayerFault) -> Iterator[Variant]:
    """Two attributes of a position encoding at once: a convention is often both."""
    config = fault.call.layer.get_config()
    if not {"layout", "endpoint", "start_index"} <= set(config):
        return
    endpoint = {"endpoint": not config["endpoint"]}
    layouts = [layout for _, layout in other_values("layout", config["layout"])]
    changes = [{**endpoint, "layout": layout} for layout in layouts]
    if isinstance(config["start_index"], int):
        changes += [{**endpoint, "start_index": config["start_index"] + k} for k in (1, -1, 2)]
        changes += [{"layout": layout, "start_index": config["start_index"] + k} for layout in layouts for k in (1, -1)]
    for change in changes:
        said = ", ".join(f"{name}={value!r}" for name, value in change.items())
        text = f"With {said} the layer gives the artifact's numbers."
        yield "other convention", text, partial(with_attributes, fault, change)


def _axes(fault: LayerFault) -> Iterator[Variant]:
    """A normalization by the mean square, or over other axes, whose own weights stay on theirs."""
    config = fault.call.layer.get_config()
    if not {"axis", "center", "scale", "epsilon"} <= config.keys() or "momentum" in config:
        return
    text = "Without the mean taken off, as an RMSNormalization, the layer gives the artifact's numbers."
    yield "other operation", text, partial(_by_mean_square, fault)
    for axes in other_axes(config["axis"]):
        text = f"Normalized over the axes {axes} instead of {config['axis']} the layer gives the artifact's numbers."
        yield "other axis", text, partial(_normalized_over, fault, axes)


def _by_mean_square(fault: LayerFault) -> Array:
    x, layer = fault.call.inputs[0].astype(np.float64), fault.call.layer
    square = np.mean(x * x, axis=tuple(np.atleast_1d(layer.axis)), keepdims=True)
    return _scaled(fault, x / np.sqrt(square + layer.epsilon))


def _normalized_over(fault: LayerFault, axes: list[int]) -> Array:
    return _scaled(fault, with_attributes(fault, {"axis": axes, "center": False, "scale": False}))


def _scaled(fault: LayerFault, plain: Array) -> Array:
    """Returns what a normalization makes of normalized values with its own weights, which stay on its own axes."""
    layer, ndim = fault.call.layer, fault.expected.ndim
    own = {axis % ndim for axis in np.atleast_1d(layer.axis)}
    shape = [size if axis in own else 1 for axis, size in enumerate(fault.expected.shape)]
    scaled = plain * as_array(layer.gamma.value).reshape(shape) if layer.scale else plain
    return scaled + as_array(layer.beta.value).reshape(shape) if layer.center else scaled


def _weights(fault: LayerFault) -> Iterator[Variant]:
    """Each weight at its neutral values: where it is folded into others, only what the layer does tells of it."""
    for variable in fault.call.layer.variables:
        if "float" not in str(variable.dtype):
            continue
        values = as_array(variable.value).astype(np.float64)
        named = {"zero": np.zeros_like(values), "one": np.ones_like(values)}
        for said, other in named.items():
            text = f"With {variable.path!r} at {said} the layer gives the artifact's numbers."
            yield "missing values", text, partial(with_weight, fault, variable, other)
        if variable.path.endswith(("bias", "beta")):
            text = f"With {variable.path!r} added twice the layer gives the artifact's numbers."
            yield "added twice", text, partial(with_weight, fault, variable, 2 * values)
        if variable.path not in fault.sound_weights:  # else what looks so is done to what it is multiplied by
            yield from _turned(fault, variable, values)
        if (values > 0).all():
            for said, other in (("the root", np.sqrt(values)), ("the square", values**2)):
                text = f"With {said} of {variable.path!r} the layer gives the artifact's numbers."
                yield "changed values", text, partial(with_weight, fault, variable, other)


def _turned(fault: LayerFault, variable: Any, values: Array) -> Iterator[Variant]:
    """A weight with its axes turned or reversed, and one that is scaled by a number."""
    for one, other in itertools.combinations(range(values.ndim), 2):
        if values.shape[one] == values.shape[other]:
            text = f"With axes {one} and {other} of {variable.path!r} exchanged the layer gives the artifact's numbers."
            yield "transposed axes", text, partial(with_weight, fault, variable, values.swapaxes(one, other))
    for axis in range(values.ndim if values.ndim > 1 else 0):
        text = f"With {variable.path!r} reversed along axis {axis} the layer gives the artifact's numbers."
        yield "reversed values", text, partial(with_weight, fault, variable, np.flip(values, axis))
    for factor in fit_to_fault(fault, (1.0,), lambda number: with_weight(fault, variable, number * values)):
        text = f"With {variable.path!r} times {factor:.6g} the layer gives the artifact's numbers."
        yield "scaled values", text, partial(with_weight, fault, variable, factor * values)


def _numbers(fault: LayerFault) -> Iterator[Variant]:
    """Each number of the layer, those that it keeps for itself too, as it fits the artifact's numbers; then all."""
    config = fault.call.layer.get_config()
    own = {name: v for name, v in config.items() if isinstance(v, float) and name not in UNTRIED}
    private = {n: v for n, v in vars(fault.call.layer).items() if n.startswith("_") and isinstance(v, float)}
    values = {**own, **private}
    together = [tuple(values)] if 1 < len(values) <= _MOST_TOGETHER else []
    for names in [*((name,) for name in values), *together]:
        start = {name: values[name] for name in names}
        found = fit_to_fault(fault, tuple(start.values()), partial(_with_values, fault, tuple(start)))
        moved = {
            n: v
            for n, v in zip(start, found, strict=False)
            if abs(v - values[n]) > _MOVED * max(abs(v), abs(values[n]))
        }
        if not moved:
            continue
        said = " and ".join(f"{name}={value:.6g} instead of {values[name]:.6g}" for name, value in moved.items())
        causes = [_CAUSES.get(name, f"other {name.strip('_')}") for name in moved]
        cause = causes[0] if len(set(causes)) == 1 else f"other {' and '.join(name.strip('_') for name in moved)}"
        yield cause, f"With {said} the layer gives the artifact's numbers.", partial(with_numbers, fault, moved)


def _with_values(fault: LayerFault, names: tuple[str, ...], *numbers: float) -> Array:
    return with_numbers(fault, dict(zip(names, numbers, strict=True)))
