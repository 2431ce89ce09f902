"""The activations that a layer may have by mistake, and other numbers in its own activation."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from keras_pe.export.parity.diagnosis.edits import Edits, NumericEdit
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, as_tensor, with_attributes
from keras_pe.export.results import Array, Cause

_NAMES = (
    *("linear", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "tanh", "sigmoid"),
    *("hard_sigmoid", "hard_silu", "softplus", "softsign", "softmax", "exponential"),
    *("log_softmax", "log_sigmoid", "hard_tanh", "tanh_shrink", "celu"),
)
_NUMBERS = {
    "relu6": {"max_value": 6.0},
    "hard_tanh": {"x_min": -1.0, "x_max": 1.0},
    "hard_sigmoid": {"slope": 1 / 6, "offset": 0.5},
    "leaky_relu": {"negative_slope": 0.2},
    "elu": {"alpha": 1.0},
    "celu": {"alpha": 1.0},
    "silu": {"beta": 1.0},
}
"""The numbers of some activations."""


def activations() -> dict[str, Callable[[Any], Any]]:
    """Returns the usual activations by name, with other forms of some."""
    import keras

    functions = keras.activations
    return {name: getattr(functions, name) for name in _NAMES} | {
        "gelu(approximate=True)": lambda x: functions.gelu(x, approximate=True),
        "softmax(axis=1)": lambda x: functions.softmax(x, axis=1),
        "softmax(axis=0)": lambda x: functions.softmax(x, axis=0),
        "leaky_relu(0.01)": lambda x: functions.leaky_relu(x, negative_slope=0.01),
        "leaky_relu(0.1)": lambda x: functions.leaky_relu(x, negative_slope=0.1),
        "x * sigmoid(1.702 x)": lambda x: x * functions.sigmoid(1.702 * x),
        "min(max(0.2 x + 0.5, 0), 1)": lambda x: keras.ops.clip(0.2 * x + 0.5, 0, 1),
        "elu(0.5)": lambda x: functions.elu(x, alpha=0.5),
    }


def _with_numbers(name: str, x: Any, numbers: Mapping[str, float]) -> Any:
    """Returns an activation of a tensor with other numbers."""
    from keras import ops

    match name:
        case "relu6":
            return ops.clip(x, 0.0, numbers["max_value"])
        case "hard_tanh":
            return ops.clip(x, numbers["x_min"], numbers["x_max"])
        case "hard_sigmoid":
            return ops.clip(numbers["slope"] * x + numbers["offset"], 0.0, 1.0)
        case "silu":
            return x * ops.sigmoid(numbers["beta"] * x)
    return getattr(ops, name)(x, **numbers)


def own_numbers(layer: Any, config: Mapping[str, Any]) -> Edits:
    """Yields a layer with other numbers in its activation, such as another limit of relu6.

    Args:
        layer: The layer, or an operation of a functional model that is an activation.
        config: The attributes of the layer.
    """
    if hasattr(layer, "variables"):
        names = {key: value for key, value in config.items() if key.endswith("activation") and isinstance(value, str)}
    else:
        own = [each for each in _NUMBERS if type(layer).__name__ == each.title().replace("_", "")]
        names = dict(zip([""], own, strict=False))
    for attribute, name in names.items():
        start = _NUMBERS.get(name, {})
        if start and not start.keys() & config.keys():
            compute, note = partial(_compute, attribute, name), f" in its activation {name}"
            yield NumericEdit(start, compute, lambda _: Cause.OTHER_ACTIVATION, note=note)


def _compute(attribute: str, name: str, fault: LayerFault, numbers: Mapping[str, float]) -> Array:
    function = partial(_with_numbers, name, numbers=numbers)
    if attribute:
        return with_attributes(fault, {attribute: function})
    return as_array(function(as_tensor(fault.call.inputs[0])))
