"""An argument of an operation leads to the statements that compute it."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.export.model.watch.operations import recorded_operations
from keras_pe.export.model.watch.stated_values import stating_places

LIMIT = 0.5
ENDS = (-1.5, 1.5)


def gains(count: int) -> list[float]:
    return [2.0**-number for number in range(count)]


def scale(x: Any, factor: float = 3.0) -> Any:
    return x * factor


class Sample:
    """Code with values from each kind of place."""

    def __init__(self, scale: float = 2.0) -> None:
        self.scale = scale
        self.half = scale / 2
        spread = np.linspace(0.5, 1.5, 8, dtype="float32")
        self.spread = spread[::-1]
        self.taps = np.array([0.25, 0.75])
        self.weight = keras.Variable(np.ones(8, "float32"))

    def call(self, x: Any) -> Any:
        size = x.shape[-1]
        first = size // 4
        last = first + 2
        x = LIMIT * x
        x = x + LIMIT * self.weight
        x = x - self.half
        x = x / self.scale
        x = x + self.spread.astype("float32")
        part = x[:, first:last]
        x = x * (size // 2)
        x = ops.divide(x, size)
        x = scale(x)
        x = scale(x, factor=4.0)
        x = scale(x, self.half)
        x = x + ops.convert_to_tensor(gains(8))
        for rate in (1.0, 2.0):
            x = ops.maximum(x, rate)
        for number, tap in enumerate(self.taps):
            x = float(tap) + x[:, number:]
        low, high = ENDS
        parts = [x**power for power in (2, 3)]
        return ops.clip(x, low, high), part, parts


def _places() -> dict[str, set[tuple[str, ...]]]:
    """Returns the texts of the places that may compute each argument, by the operation."""
    x = ops.ones((2, 8))
    with recorded_operations() as operations:
        Sample().call(x)
    found: dict[str, set[tuple[str, ...]]] = {}
    for operation in operations:
        for key, name, value in operation.constants:
            if name != "dtype" and value is not None:
                part = 1 if isinstance(value, tuple) else None
                places = stating_places(operation, key, part)
                texts = tuple(place.operation.partition(":")[0] for place in places)
                found.setdefault(operation.place.operation, set()).add(texts)
    return found


def test_name_leads_to_the_statements_that_compute_its_value() -> None:
    assert _places() == {
        "LIMIT * x": {("LIMIT = 0.5",)},
        "LIMIT * self.weight": {("LIMIT = 0.5",), ('self.weight = keras.Variable(np.ones(8, "float32"))',)},
        "x - self.half": {("self.half = scale / 2",)},
        "x / self.scale": {("x / self.scale",)},
        'x + self.spread.astype("float32")': {
            ("self.spread = spread[", 'spread = np.linspace(0.5, 1.5, 8, dtype="float32")'),
        },
        "x[:, first:last]": {("first = size // 4",)},
        "x * (size // 2)": {("x * (size // 2)",)},
        "ops.divide(x, size)": {("ops.divide(x, size)",)},
        "x * factor": {("3.0",), ("scale(x, factor=4.0)",), ("self.half = scale / 2",)},
        "ops.convert_to_tensor(gains(8))": {("ops.convert_to_tensor(gains(8))", "def gains")},
        "ops.maximum(x, rate)": {("ops.maximum(x, rate)",)},
        "float(tap) + x[:, number:]": {("self.taps = np.array([0.25, 0.75])",)},
        "x[:, number:]": {("x[",)},
        "x**power": {("x**power",)},
        "ops.clip(x, low, high)": {("ENDS = (-1.5, 1.5)",)},
    }
