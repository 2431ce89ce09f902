"""The layer at fault made again with one thing about it changed, until it gives the artifact's numbers."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.state import state_left_alone
from keras_pe.export.parity.diagnosis.again import (
    as_array,
    as_tensor,
    call,
    given,
    with_attributes,
    with_input,
    with_private,
    with_weight,
)
from keras_pe.export.parity.diagnosis.alternatives import UNTRIED, activations, other_values, sibling
from keras_pe.export.parity.diagnosis.fitting import fitted
from keras_pe.export.parity.diagnosis.operations import instead_of_operation
from keras_pe.export.parity.diagnosis.probe import LayerFault, distance
from keras_pe.export.parity.results import Array, Finding

_EXPLAINS = 0.02  # A variant explains a difference if it leaves at most this much of it.
_CAUSES = {
    "layout": "wrong layout",
    "start_index": "start index off",
    "endpoint": "other convention",
    "max_timescale": "other convention",
    "min_timescale": "other convention",
}
_WITHOUT_THE_LAYER = {"layer left out", "flipped sign", "other operation", "other order"}


def explain_by_layer(fault: LayerFault, note: Callable[[str, Exception], None]) -> Finding | None:
    """Returns the change of a layer, of its masks or of what it is given that gives the artifact's numbers.

    Args:
        fault: The layer and its output.
        note: Called with what could not be tried and why, where the layer takes no change at all.
    """
    seen = fault.through or fault
    actual = seen.held if seen.actual is None else seen.actual
    if actual is None:
        return None
    error = distance(actual, seen.expected)
    if not error > 0 or (seen.actual is not None and error == np.inf):
        return None
    allowed = seen.tolerance if error == np.inf else max(_EXPLAINS * error, seen.tolerance)
    best: tuple[float, str, str] | None = None
    ran, refused = False, None
    for cause, text, compute in _variants(fault):
        try:
            with state_left_alone(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an attribute that is only tried
                result = _shown(fault, compute())
        except Exception as raised:  # whatever a layer raises: this change is none that it takes
            refused = refused or raised
            continue
        ran = ran or cause not in _WITHOUT_THE_LAYER
        if result is None:
            continue
        forms = [result] if seen.actual is not None or result.ndim < 3 else [result, np.moveaxis(result, -1, 1)]
        left = min(distance(actual, each) for each in forms)
        if left <= allowed and distance(result, seen.expected) > seen.tolerance:
            if best is None or left < best[0]:
                best = (left, cause, text)
            if left <= seen.tolerance:
                break
    if best is None:
        if refused is not None and not ran:
            note(f"changes of the layer {fault.layer!r}", refused)
        return None
    left, cause, text = best
    text += f" That shows in the output of {seen.layer!r}." if fault.through else ""
    was = f"{error:.1e}" if error < np.inf else f"another shape ({actual.shape}, not {fault.expected.shape})"
    return Finding(cause, f"{text} The difference falls from {was} to {left:.1e}.", fault.layer)


def _shown(fault: LayerFault, result: Array | None) -> Array | None:
    """Returns what the layer in which a fault shows makes of a result."""
    return result if fault.through is None or result is None else with_input(fault.through, fault.expected, result)


Variant = tuple[str, str, Callable[[], Array | None]]


def _variants(fault: LayerFault) -> Iterator[Variant]:
    yield from instead_of_operation(fault)
    yield from _masks(fault)
    if hasattr(fault.call.layer, "get_config") and hasattr(fault.call.layer, "variables"):
        yield from _attributes(fault)
        yield from _pairs_of_attributes(fault)
        yield from _paddings(fault)
        yield from _weights(fault)
        yield from _fits(fault)
    yield from _between(fault)


def _masks(fault: LayerFault) -> Iterator[Variant]:
    """The layer without its masks, all and then each; with and without a causal one."""
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
        said = " and ".join(f"`{name}`" for name in dropped)
        changed = {**arguments, **dict.fromkeys(dropped)}
        yield (
            "dropped mask",
            f"Without {said} the layer gives the artifact's numbers.",
            partial(call, layer, changed, fault),
        )
    for name in names:
        changed = {**arguments, name: keras.ops.logical_not(arguments[name])}
        text = f"With `{name}` inverted the layer gives the artifact's numbers."
        yield "inverted mask", text, partial(call, layer, changed, fault)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = "dropped causal mask" if not causal else "added causal mask"
        text = f"With use_causal_mask={causal} the layer gives the artifact's numbers."
        yield cause, text, partial(call, layer, {**arguments, "use_causal_mask": causal}, fault)


def _attributes(fault: LayerFault) -> Iterator[Variant]:
    layer = fault.call.layer
    for name, value in layer.get_config().items():
        for said, other in other_values(name, value):
            text = f"With {name}={said} instead of {_said(value)} the layer gives the artifact's numbers."
            yield _CAUSES.get(name, f"other {name}"), text, partial(with_attributes, fault, {name: other})
    kind = sibling(layer)
    if kind is not None:
        text = f"A {kind.__name__} gives the artifact's numbers."
        yield "other operation", text, partial(with_attributes, fault, {}, kind)


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


def _paddings(fault: LayerFault) -> Iterator[Variant]:
    """A layer that pads by itself, given what is padded already, as other frameworks do."""
    config, image = fault.call.layer.get_config(), fault.call.inputs[0] if fault.call.inputs else np.zeros(())
    sizes = config.get("kernel_size") or config.get("pool_size")
    if config.get("padding") != "same" or not isinstance(sizes, list | tuple) or image.ndim != len(sizes) + 2:
        return
    dilations = config.get("dilation_rate") or (1,) * len(sizes)
    reach = [(size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
    for said, widths in (
        ("as much before as after", [(r // 2, r // 2) for r in reach]),
        ("all of it before", [(r, 0) for r in reach]),
        ("all of it after", [(0, r) for r in reach]),
    ):
        padded = np.pad(image, [(0, 0), *widths, (0, 0)])
        text = f"Padded with zeros, {said}, the layer gives the artifact's numbers."
        yield "other padding", text, partial(_padded, fault, image, padded)


def _padded(fault: LayerFault, image: Array, padded: Array) -> Array:
    call_of_padded = replace(fault.call, arguments=(as_tensor(padded), *fault.call.arguments[1:]))
    return with_attributes(replace(fault, call=call_of_padded), {"padding": "valid"})


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
        if (values > 0).all():
            for said, other in (("the root", np.sqrt(values)), ("the square", values**2)):
                text = f"With {said} of {variable.path!r} the layer gives the artifact's numbers."
                yield "changed values", text, partial(with_weight, fault, variable, other)


def _fits(fault: LayerFault) -> Iterator[Variant]:
    """Each number of the layer, those that it keeps for itself too, as it fits the artifact's numbers best."""
    seen = fault.through or fault
    if seen.actual is None:
        return
    config = fault.call.layer.get_config()
    given_numbers = {name: v for name, v in config.items() if isinstance(v, float) and name not in UNTRIED}
    private = {n: v for n, v in vars(fault.call.layer).items() if n.startswith("_") and isinstance(v, float)}
    for name, value in {**given_numbers, **private}.items():
        is_private = name in private

        def compute(number: float, name: str = name, is_private: bool = is_private) -> Array:
            changed = with_private(fault, name, number) if is_private else with_attributes(fault, {name: number})
            shown = _shown(fault, changed)
            assert shown is not None
            return shown

        try:
            with state_left_alone(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = fitted(compute, value, seen.expected, seen.actual)
        except Exception:  # whatever a layer raises: this number is none that it takes
            continue
        if found is not None:
            text = f"With {name}={found:.6g} instead of {value:.6g} the layer gives the artifact's numbers."
            change = (
                partial(with_private, fault, name, found)
                if is_private
                else partial(with_attributes, fault, {name: found})
            )
            yield _CAUSES.get(name, f"other {name.strip('_')}"), text, change


def _between(fault: LayerFault) -> Iterator[Variant]:
    """What the code of the layer around this one computes for it, left out, or with another activation."""
    for loose in fault.loose:
        for path, output in fault.before:
            text = f"the output of {path!r} in the place of what the code around it computes, the layer"
            numbers = "gives the artifact's numbers."
            yield "operation left out", f"Given {text} {numbers}", partial(with_input, fault, loose, output)
            for name, function in activations().items():
                said = f"Given {name} of {text} {numbers}"
                yield "other activation", said, partial(_activated, fault, loose, function, output)


def _activated(fault: LayerFault, loose: Array, function: Callable[[Any], Any], output: Array) -> Array:
    return with_input(fault, loose, as_array(function(as_tensor(output))))
