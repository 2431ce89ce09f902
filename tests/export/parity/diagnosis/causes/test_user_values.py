"""A wrong value is named at the statement that computes it, and a wrong list, direction or part at its own line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.results import Cause
from tests.export.parity.diagnosis.planted import one_layer

pytestmark = pytest.mark.slow


class Factor(L.Layer):
    """A product with a number of the constructor."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.factor = 3.0 / 4

    def call(self, x: Any) -> Any:
        return ops.tanh(self.factor * ops.sin(x))


class OtherFactor(Factor):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.factor = 0.9


class Window(L.Layer):
    """A product with a table of the constructor."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.window = np.hanning(8).astype("float32")

    def call(self, x: Any) -> Any:
        return ops.tanh(x) * self.window


class OtherWindow(Window):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.window = np.hamming(8).astype("float32")


class Causal(L.Layer):
    """Scores of earlier positions."""

    def mask(self) -> Any:
        return np.arange(6)[:, None] >= np.arange(6)

    def call(self, x: Any) -> Any:
        return ops.softmax(ops.where(self.mask(), ops.sin(x), -1e9))


class Wider(Causal):
    def mask(self) -> Any:
        return np.arange(6)[:, None] >= np.arange(6) - 1


class Joined(L.Layer):
    """Joins parts of a list."""

    def parts(self, x: Any) -> Any:
        parts = [ops.sin(x), ops.tanh(x)]
        return ops.concatenate(parts)

    def call(self, x: Any) -> Any:
        return 2.0 * self.parts(x)


class Turned(Joined):
    def parts(self, x: Any) -> Any:
        return ops.concatenate([ops.tanh(x), ops.sin(x)])


class Angles(L.Layer):
    """Projections on several angles."""

    count = 4.0

    def call(self, x: Any) -> Any:
        cells = []
        for number in range(4):
            angle = 3.0 * number / self.count
            cells.append(ops.tanh(x[..., 0] * ops.cos(angle) + x[..., 1] * ops.sin(angle)))
        return ops.stack(cells, axis=-1)


class OtherAngles(Angles):
    count = 3.0


class Shift(L.Layer):
    """Moves rows by one position."""

    def shift(self, x: Any) -> Any:
        return ops.pad(x[:, :-1], [[0, 0], [1, 0], [0, 0]])

    def call(self, x: Any) -> Any:
        return x + ops.tanh(self.shift(x))


class Back(Shift):
    def shift(self, x: Any) -> Any:
        return ops.pad(x[:, 1:], [[0, 0], [0, 1], [0, 0]])


class Halves(L.Layer):
    """A rotation of pairs of values."""

    def halves(self, x: Any) -> Any:
        return x[..., :4], x[..., 4:]

    def turn(self, x: Any) -> Any:
        one, other = self.halves(x)
        return ops.concatenate([0.6 * one - 0.8 * other, 0.8 * one + 0.6 * other], axis=-1)

    def call(self, x: Any) -> Any:
        return self.turn(ops.sin(x)) * self.turn(ops.cos(x))


class Pairs(Halves):
    def halves(self, x: Any) -> Any:
        return x[..., ::2], x[..., 1::2]


@pytest.mark.parametrize(
    ("right", "wrong", "shape", "cause", "operation"),
    [
        (Factor, OtherFactor, (6,), "other constant", "self.factor = 3.0 / 4"),
        (Window, OtherWindow, (8,), "other constant", 'self.window = np.hanning(8).astype("float32")'),
        (Causal, Wider, (6, 6), "other condition", "ops.where(self.mask(), ops.sin(x), -1e9)"),
        (Joined, Turned, (6,), Cause.EXCHANGED_INPUTS, "parts = [ops.sin(x), ops.tanh(x)]"),
        (Angles, OtherAngles, (6,), "other constant", "angle = 3.0 * number / self.count"),
        (Shift, Back, (5, 3), Cause.OTHER_DIRECTION, "ops.pad(x[:, :-1], [[0, 0], [1, 0], [0, 0]])"),
        (Halves, Pairs, (8,), Cause.OTHER_ORDER, "x[..., :4]"),
    ],
    ids=["number", "table", "mask", "list", "loop", "direction", "parts"],
)
def test_line_at_fault_is_named_alone(
    right: Any, wrong: Any, shape: tuple[int, ...], cause: str, operation: str, tmp_path: Path
) -> None:
    path = export_onnx(seeded(one_layer(wrong(name="y"), shape)), tmp_path / "model.onnx").path
    model = seeded(one_layer(right(name="y"), shape))
    (result,) = check_parity(model, path, runtimes=["onnxruntime[disabled]"]).results
    (finding,) = result.findings
    assert (finding.cause, finding.operation) == (cause, operation)


def double(numbers: list[float]) -> list[float]:
    return [2 * number for number in numbers]


class Computed(L.Layer):
    """A sum with numbers that a function returns."""

    rates = (0.5, 1.0, 1.5, 2.0)

    def call(self, x: Any) -> Any:
        return ops.tanh(x) + ops.convert_to_tensor(double(self.rates))


class OtherComputed(Computed):
    rates = (0.5, 1.0, 1.75, 2.0)


def test_value_of_a_user_s_function_has_no_line_of_its_own(tmp_path: Path) -> None:
    path = export_onnx(one_layer(OtherComputed(name="y"), (4,)), tmp_path / "model.onnx").path
    (result,) = check_parity(one_layer(Computed(name="y"), (4,)), path, runtimes=["onnxruntime[disabled]"]).results
    (finding,) = result.findings
    assert (Path(str(finding.file)).name, finding.line) == (Path(__file__).name, None)
