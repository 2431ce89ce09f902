"""The layer at fault made again with one attribute changed, until it gives the artifact's numbers."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.state import state_left_alone
from keras_pe.export.parity.diagnosis.probe import LayerFault, distance
from keras_pe.export.parity.results import Array, Finding

_EXPLAINS = 0.02  # A variant explains a difference if it leaves at most this much of it.
_ACTIVATIONS = (
    *("linear", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "tanh", "sigmoid"),
    *("hard_sigmoid", "hard_silu", "softplus", "softsign", "softmax", "exponential"),
)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "activation": _ACTIVATIONS,
    "recurrent_activation": _ACTIVATIONS,
    "padding": ("valid", "same", "causal"),
    "layout": ("concatenated", "interleaved"),
    "combine": ("add", "replace"),
    "interpolation": ("nearest", "bilinear", "bicubic", "lanczos3"),
    "merge_mode": ("sum", "mul", "concat", "ave"),
    "epsilon": (0.0, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "negative_slope": (0.0, 0.01, 0.1, 0.2, 0.3, 0.5, 1.0),
    "start_index": tuple(k for size in range(1, 9) for k in (size, -size)),
    "axis": tuple(range(-1, 4)),
}
_FACTORS = (0.0, 0.1, 0.5, 2.0, 10.0, -1.0)
_CAUSES = {
    "layout": "wrong layout",
    "start_index": "start index off",
    "endpoint": "other convention",
    "max_timescale": "other convention",
    "min_timescale": "other convention",
}
_WITHOUT_THE_LAYER = {"layer left out", "flipped sign", "other operation"}
_SKIPPED = {"name", "dtype", "trainable", "seed", "quantization_config", "autocast", "sparse", "dropout", "rate"}


def explain_by_layer(fault: LayerFault, note: Callable[[str, Exception], None]) -> Finding | None:
    """Returns the change of a layer, of its masks or of what it is given that gives the artifact's numbers.

    Args:
        fault: The layer and its output.
        note: Called with what could not be tried and why, where the layer takes no change at all.
    """
    if fault.actual is None:
        return None
    error = distance(fault.actual, fault.expected)
    if not 0 < error < np.inf:
        return None
    best: tuple[float, str, str] | None = None
    ran, refused = False, None
    for cause, text, compute in _variants(fault):
        try:
            with state_left_alone(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an attribute that is only tried
                result = compute()
        except Exception as raised:  # whatever a layer raises: this change is none that it takes
            refused = refused or raised
            continue
        ran = ran or cause not in _WITHOUT_THE_LAYER
        if result is None or result.shape != fault.expected.shape:
            continue
        left = distance(fault.actual, result)
        if left <= max(_EXPLAINS * error, fault.tolerance) and distance(result, fault.expected) > fault.tolerance:
            if best is None or left < best[0]:
                best = (left, cause, text)
            if left <= fault.tolerance:
                break
    if best is None:
        if refused is not None and not ran:
            note(f"changes of the layer {fault.layer!r}", refused)
        return None
    left, cause, text = best
    return Finding(cause, f"{text} The difference falls from {error:.1e} to {left:.1e}.", fault.layer)


Variant = tuple[str, str, Callable[[], Array | None]]


def _variants(fault: LayerFault) -> Iterator[Variant]:
    yield from _left_out(fault)
    yield from _masks(fault)
    if hasattr(fault.call.layer, "get_config") and hasattr(fault.call.layer, "variables"):
        yield from _attributes(fault)
        yield from _pairs_of_attributes(fault)


def _left_out(fault: LayerFault) -> Iterator[Variant]:
    """The layer, or all but one of the tensors that an operation puts together, left out."""
    inputs = fault.call.inputs
    for number, array in enumerate(inputs):
        if array.dtype.kind != "f":
            continue
        what = "what it is given" if len(inputs) == 1 else f"input {number} of {len(inputs)} alone"
        yield "layer left out", f"The artifact holds {what}.", partial(_as_output, array, fault)
        yield "flipped sign", "The artifact holds the negative.", lambda: -fault.expected
    if len(inputs) == 2 and all(array.dtype.kind == "f" for array in inputs):
        one, other = (array.astype(np.float64) for array in inputs)
        for sign, result in (
            ("a - b", one - other),
            ("b - a", other - one),
            ("a * b", one * other),
            ("a + b", one + other),
        ):
            text = f"The artifact holds {sign} of the two inputs."
            yield "other operation", text, partial(_as_output, result, fault)


def _as_output(array: Array, fault: LayerFault) -> Array | None:
    if array.shape == fault.expected.shape:
        return array
    try:
        return np.broadcast_to(array, fault.expected.shape)
    except ValueError:
        return None


def _masks(fault: LayerFault) -> Iterator[Variant]:
    """The layer without its masks, all and then each; with and without a causal one."""
    import keras

    layer = fault.call.layer
    try:
        bound = inspect.signature(layer.call).bind(*fault.call.arguments, **fault.call.keywords)
    except TypeError:
        return
    given = dict(bound.arguments)
    names = [
        name
        for name, value in given.items()
        if "mask" in name and value is not None and any(map(keras.ops.is_tensor, keras.tree.flatten(value)))
    ]
    for dropped in [names, *([name] for name in names)] if len(names) > 1 else [names] if names else []:
        said = " and ".join(f"`{name}`" for name in dropped)
        changed = {**given, **dict.fromkeys(dropped)}
        yield (
            "dropped mask",
            f"Without {said} the layer gives the artifact's numbers.",
            partial(_call, layer, changed, fault),
        )
    for name in names:
        changed = {**given, name: keras.ops.logical_not(given[name])}
        text = f"With `{name}` inverted the layer gives the artifact's numbers."
        yield "inverted mask", text, partial(_call, layer, changed, fault)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not given.get("use_causal_mask", False)
        cause = "dropped causal mask" if not causal else "added causal mask"
        text = f"With use_causal_mask={causal} the layer gives the artifact's numbers."
        yield cause, text, partial(_call, layer, {**given, "use_causal_mask": causal}, fault)


def _attributes(fault: LayerFault) -> Iterator[Variant]:
    layer = fault.call.layer
    for name, value in layer.get_config().items():
        for other in _others(name, value):
            text = f"With {name}={other!r} instead of {value!r} the layer gives the artifact's numbers."
            cause = _CAUSES.get(name, f"other {name}")
            yield cause, text, partial(_with_attributes, fault, {name: other})


def _pairs_of_attributes(fault: LayerFault) -> Iterator[Variant]:
    """Two attributes of a position encoding at once: a convention is often both."""
    config = fault.call.layer.get_config()
    if not {"layout", "endpoint", "start_index"} <= set(config):
        return
    endpoint = {"endpoint": not config["endpoint"]}
    layouts = [layout for layout in _CHOICES["layout"] if layout != config["layout"]]
    changes = [{**endpoint, "layout": layout} for layout in layouts]
    if isinstance(config["start_index"], int):
        changes += [{**endpoint, "start_index": config["start_index"] + k} for k in (1, -1, 2)]
        changes += [{"layout": layout, "start_index": config["start_index"] + k} for layout in layouts for k in (1, -1)]
    for change in changes:
        said = ", ".join(f"{name}={value!r}" for name, value in change.items())
        text = f"With {said} the layer gives the artifact's numbers."
        yield "other convention", text, partial(_with_attributes, fault, change)


def _others(name: str, value: Any) -> Iterator[Any]:
    """Yields the values that an attribute might have by mistake."""
    if name in _SKIPPED or name.endswith(("_initializer", "_regularizer", "_constraint")):
        return
    if name == "start_index" and isinstance(value, int):
        yield from (value + k for k in _CHOICES[name])
    elif isinstance(value, bool):
        yield not value
    elif name in _CHOICES and not isinstance(value, dict | list | tuple):
        yield from (other for other in _CHOICES[name] if other != value)
    elif isinstance(value, int | float):
        yield from ((type(value))(value * factor) for factor in _FACTORS if value * factor != value)
        if isinstance(value, int):
            yield from (value + 1, value - 1)
    elif value is None and name == "max_length":
        yield from (1, 16, 64, 256)


def _with_attributes(fault: LayerFault, change: dict[str, Any]) -> Array | None:
    """Returns what the layer gives with other attributes and the same weights."""
    layer = fault.call.layer
    again = type(layer).from_config({**layer.get_config(), **change, "name": layer.name})
    bound = inspect.signature(layer.call).bind(*fault.call.arguments, **fault.call.keywords)
    if layer.built and not again.built:
        again.build_from_config(layer.get_build_config() or {})
    weights = layer.get_weights()
    if "use_bias" in change or "center" in change or "scale" in change:
        by_name = {v.path.rpartition("/")[2]: w for v, w in zip(layer.weights, weights, strict=True)}
        for variable in again.weights:
            variable.assign(by_name.get(variable.path.rpartition("/")[2], 0.0 * variable))
    else:
        again.set_weights(weights)
    return _call(again, dict(bound.arguments), fault)


def _call(layer: Any, arguments: dict[str, Any], fault: LayerFault) -> Array | None:
    """Calls a layer with the arguments of the recorded call, by name."""
    import keras

    signature = inspect.signature(layer.call)
    bound = inspect.BoundArguments(signature, arguments)
    result = layer.call(*bound.args, **bound.kwargs)
    tensors = [leaf for leaf in keras.tree.flatten(result) if keras.ops.is_tensor(leaf)]
    array: Array = keras.ops.convert_to_numpy(tensors[fault.index])
    return array
