"""What might stand in the place of an attribute, an activation or a class by mistake."""

from collections.abc import Callable, Iterator
from typing import Any

_ACTIVATIONS = (
    *("linear", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "tanh", "sigmoid"),
    *("hard_sigmoid", "hard_silu", "softplus", "softsign", "softmax", "exponential"),
    *("log_softmax", "log_sigmoid", "hard_tanh", "tanh_shrink", "celu"),
)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "padding": ("valid", "same", "causal"),
    "layout": ("concatenated", "interleaved"),
    "combine": ("add", "replace"),
    "interpolation": ("nearest", "bilinear", "bicubic", "lanczos3"),
    "merge_mode": ("sum", "mul", "concat", "ave"),
    "data_format": ("channels_last", "channels_first"),
    "start_index": tuple(k for size in range(1, 9) for k in (size, -size)),
    "axis": tuple(range(-1, 4)),
    "max_value": (None, 6.0, 1.0),
    "threshold": (0.0, 0.01, 0.1, 0.5, 1.0),
    "max_length": (None, 1, 16, 64, 256),
}
_OF_EVERY_AXIS = {"strides": (1, 2, 3), "dilation_rate": (1, 2, 3, 4), "pool_size": (1, 2, 3)}
UNTRIED = {"name", "dtype", "trainable", "seed", "quantization_config", "autocast", "sparse"}
UNTRIED |= {"dropout", "rate", "recurrent_dropout", "momentum"}  # which show in training alone


def activations() -> dict[str, Callable[[Any], Any]]:
    """Returns the activations that are in use, by name, and the other forms of some."""
    import keras

    functions = keras.activations
    return {name: getattr(functions, name) for name in _ACTIVATIONS} | {
        "gelu(approximate=True)": lambda x: functions.gelu(x, approximate=True),
        "softmax(axis=1)": lambda x: functions.softmax(x, axis=1),
        "softmax(axis=0)": lambda x: functions.softmax(x, axis=0),
        "leaky_relu(0.01)": lambda x: functions.leaky_relu(x, negative_slope=0.01),
        "leaky_relu(0.1)": lambda x: functions.leaky_relu(x, negative_slope=0.1),
        "x * sigmoid(1.702 x)": lambda x: x * functions.sigmoid(1.702 * x),
        "min(max(0.2 x + 0.5, 0), 1)": lambda x: keras.ops.clip(0.2 * x + 0.5, 0, 1),
        "elu(0.5)": lambda x: functions.elu(x, alpha=0.5),
    }


def other_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the values that an attribute might have by mistake, each with how it is said."""
    if name.endswith("activation"):
        yield from ((repr(said), function) for said, function in activations().items() if said != value)
        return
    yield from ((repr(other), other) for other in _plain_values(name, value))


def _plain_values(name: str, value: Any) -> Iterator[Any]:
    if name in UNTRIED or name.endswith(("_initializer", "_regularizer", "_constraint")):
        return
    if name == "start_index" and isinstance(value, int):
        yield from (value + k for k in _CHOICES[name])
    elif isinstance(value, bool):
        yield not value
    elif name in ("padding", "cropping") and isinstance(value, list | tuple):
        yield from _on_other_sides(value)
    elif name == "axis" and isinstance(value, list | tuple):
        yield from other_axes(value)
    elif name in _OF_EVERY_AXIS and isinstance(value, list | tuple):
        alike = ((k,) * len(value) for k in _OF_EVERY_AXIS[name])
        yield from (other for other in alike if other != tuple(value))
    elif name in _CHOICES and not isinstance(value, dict | list | tuple):
        yield from (other for other in _CHOICES[name] if other != value)
    elif isinstance(value, int):
        yield from dict.fromkeys((2 * value, value // 2, value + 1, value - 1, 0, -value))


def _on_other_sides(widths: Any) -> Iterator[Any]:
    """Yields what is added or cut on both sides of each axis, all of it on one."""
    pairs = [tuple(pair) if isinstance(pair, list | tuple) else None for pair in widths]
    flat = None in pairs
    for one_sided in (lambda a, b: (0, a + b), lambda a, b: (a + b, 0), lambda a, b: (b, a)):
        moved = one_sided(*widths) if flat else tuple(one_sided(*pair) for pair in pairs if pair is not None)
        if moved != (tuple(widths) if flat else tuple(pairs)):
            yield moved


def other_axes(value: Any) -> Iterator[list[int]]:
    """Yields the sets of axes that a layer might work over by mistake, the batch aside."""
    own = list(value) if isinstance(value, list | tuple) else [value]
    yield from (axes for axes in ([-1], [1], [2], [3], [1, 2], [1, 2, 3], [2, 3], [1, 3]) if axes != own)


def sibling(layer: Any) -> type | None:
    """Returns the pooling that takes the maximum where a layer takes the mean, and the other way round."""
    import keras

    name = type(layer).__name__
    other = name.replace("Average", "Max") if "Average" in name else name.replace("Max", "Average")
    kind = getattr(keras.layers, other, None) if other != name and "Pooling" in name else None
    return kind if isinstance(kind, type) else None
