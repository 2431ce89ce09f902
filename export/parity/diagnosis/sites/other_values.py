"""What may stand in the place of an attribute, an activation or a class, or of an array in a call, by mistake."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit, Site, factor
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.probe import distance
from keras_pe.export.parity.diagnosis.relations.change import Change
from keras_pe.export.parity.diagnosis.relations.detection import OF_OUTPUTS, UNEXPLAINED, find_change, holds
from keras_pe.export.parity.diagnosis.relations.proposals import Proposal
from keras_pe.export.results import Array, Cause

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

_OF_HALF = 2.0**-6  # of the largest value: what a few roundings to 16 bits leave


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


@dataclass(frozen=True)
class Place:
    """An array of a call.

    Attributes:
        how: How the layer has it, as in "with" or "given".
        name: What it is called.
        get: Returns what it should be.
        put: Returns what the layer gives with another one there.
    """

    how: str
    name: str
    get: Callable[[LayerFault], Array]
    put: Callable[[LayerFault, Array], Array]

    def edits(self, proposals: Iterable[Proposal]) -> Edits:
        """Yields the edit of each proposal."""
        for proposal in proposals:
            said = f"{self.how} {proposal.template.format(self.name)}"
            yield Edit(proposal.cause, said, partial(self._changed, proposal))

    def _changed(self, proposal: Proposal, fault: LayerFault) -> Array:
        return self.put(fault, proposal.change(self.get(fault)))

    def scaled(self, cause: Cause) -> NumericEdit:
        """Returns the edit that is the array times a number."""
        return factor(cause, f"{self.how} {self.name}", lambda fault, by: self.put(fault, by * self.get(fault)))


def told_values(fault: LayerFault) -> Edits:
    """Yields what has become of an output, where that shows in its values."""
    if fault.actual is None:
        return
    change = find_change(fault.expected, fault.actual, fault.tolerance, OF_OUTPUTS)
    if change is not None and change.cause not in UNEXPLAINED:
        yield _same_change(change, fault)
    yield factor(Cause.SCALED_VALUES, "what it should", lambda fault, by: by * fault.expected, is_output=True)


def _same_change(change: Change, first: LayerFault) -> Edit:
    """Returns the edit that is a change of the values, seen in one case, wherever it is seen again."""

    def same(fault: LayerFault) -> Array | None:
        if fault.actual is None or distance(fault.actual, fault.expected) <= fault.tolerance:
            return fault.actual
        given = fault.expected, fault.actual, fault.tolerance, OF_OUTPUTS
        other = find_change(*given)
        # Fewer values may not be enough to show it.
        is_silent = fault.actual.size < first.expected.size and (other is None or other.cause in UNEXPLAINED)
        return fault.actual if is_silent or change.agrees(other) or holds(change, *given) else None

    is_start = change.cause is Cause.SHIFTED_ROWS and _is_position(first)
    cause = Cause.START_INDEX_OFF if is_start else change.cause
    return Edit(cause, f"other values: {str(change)[:1].lower()}{str(change)[1:-1]}", same, is_output=True)


def rounded_inside(dtypes: Sequence[str]) -> Site:
    """Returns the site of an artifact that computes in short floats."""

    def in_short_floats(fault: LayerFault) -> Edits:
        """Yields what it should hold, as near as short floats are."""
        said = f"tensors of {' and '.join(dtypes)}, and is off by no more than their rounding"
        yield Edit(Cause.HALF_PRECISION, said, _near, is_output=True)

    return in_short_floats


def _near(fault: LayerFault) -> Array | None:
    if fault.actual is None:
        return None
    error, largest = distance(fault.actual, fault.expected), np.abs(fault.expected.astype(np.float64)).max(initial=0.0)
    return fault.actual if error <= max(_OF_HALF * largest, fault.tolerance) else None


def _is_position(fault: LayerFault) -> bool:
    from keras_pe.layers.base import PositionLayer

    return isinstance(fault.call.layer, PositionLayer)
