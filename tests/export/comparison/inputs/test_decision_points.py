"""Inputs reach both sides of each decision of a model, and stay within the values that it accepts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.comparison.inputs.borders import Borders, dealt
from keras_pe.export.comparison.inputs.role import Role, range_roles
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.signature.signature import Signature


class Step(layers.Layer):
    """Compares with a trained threshold."""

    def build(self, input_shape: Any) -> None:
        self.threshold = self.add_weight(shape=(), initializer=keras.initializers.Constant(0.37))

    def call(self, x: Any) -> Any:
        return ops.where(x > self.threshold, x, -x)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


class Counted(layers.Layer):
    """Makes a tensor as long as the largest value."""

    def call(self, x: Any) -> Any:
        return x + ops.sum(ops.zeros((ops.max(x),), "int64"))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def _reference(function: Callable[[Any], Any], dtype: str = "float32") -> KerasReference:
    x = keras.Input((3,), dtype=dtype, name="x")
    return KerasReference(keras.Model(x, function(x)))


def _as_floats(x: Any) -> Any:
    return ops.cast(x, "float32")


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    ("function", "borders"),
    [
        (layers.Discretization(bin_boundaries=[-1.0, 0.3, 18.0]), [-1, 0.3, 18]),
        (lambda x: layers.Discretization(bin_boundaries=[0.1, 0.9])(layers.Rescaling(1 / 255)(x)), [25.5, 229.5]),
        (lambda x: _as_floats(2 * x + 1 > 0.7), [-0.15]),
        (lambda x: _as_floats(ops.log1p(ops.relu(x)) >= 3), [np.expm1(3)]),
        (lambda x: _as_floats(ops.mean(x, axis=-1) > 5), [5]),
        (lambda x: ops.clip(x, -3, 5.5), [-3, 5.5]),
        (lambda x: layers.ReLU(threshold=0.2, max_value=6.5)(x), [0.2, 6.5]),
        (lambda x: ops.searchsorted(ops.convert_to_tensor([0.0, 5.0]), ops.reshape(x, (-1,))), [0, 5]),
        (lambda x: Step()(x), [0.37]),
        (lambda x: ops.where(ops.equal(ops.transpose(x)[0], 77), 1.0, 0.0), [77]),
        (lambda x: layers.Dense(2)(layers.Normalization(mean=50_000, variance=100)(x)), [49_980, 50_000, 50_020]),
    ],
    ids=[
        "bins",
        "rescaled",
        "arithmetic",
        "log",
        "mean",
        "clip",
        "relu",
        "searchsorted",
        "weight",
        "equal",
        "normalized",
    ],
)
def test_values_lie_on_both_sides_of_a_border_and_close_to_it(function: Callable[..., Any], borders: list[Any]) -> None:
    beside = np.array(_reference(function).roles["x"].borders.beside)
    for border in borders:
        off = (beside - border) / max(abs(border), 1)
        assert 0 < off[off > 0].min() < 1e-3
        assert -1e-3 < off[off < 0].max() < 0
        assert (off > 5e-3).any()
        assert (off < -5e-3).any()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.sigmoid(layers.Dense(1, kernel_initializer="ones")(x)) > 1 / (1 + np.exp(-0.6)),
        lambda x: layers.Conv1D(1, 3, kernel_initializer="ones")(ops.expand_dims(x, -1)) > 0.6,
        lambda x: ops.einsum("bi,ij->bj", x, ops.ones((3, 2))) >= 0.6,
        lambda x: layers.ReLU(threshold=0.6)(layers.Dense(1, kernel_initializer="ones")(x)),
    ],
    ids=["dense", "convolution", "einsum", "relu"],
)
def test_values_lie_on_both_sides_of_a_border_behind_weights(function: Callable[..., Any]) -> None:
    off = np.array(_reference(lambda x: _as_floats(function(x))).roles["x"].borders.beside) - 0.2
    assert 0 < off[off > 0].min() < 1e-3
    assert -1e-3 < off[off < 0].max() < 0


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("function", "border"),
    [
        (lambda x: x >= 1000, 1000),
        (lambda x: layers.Embedding(12, 2)(ops.clip(x // 10, 0, 11)), 110),
        (lambda x: ops.equal(x, 2**31 + 5), 2**31 + 5),
        (lambda x: layers.CategoryEncoding(20, output_mode="multi_hot")(x), 19),
    ],
    ids=["threshold", "steps", "equal", "categories"],
)
def test_integers_lie_right_beside_a_border(function: Callable[..., Any], border: int) -> None:
    assert {border - 1, border, border + 1} <= set(_reference(function, "int64").roles["x"].borders.beside)


def test_mixed_bits_have_no_borders_and_other_uses_of_the_input_keep_theirs() -> None:
    def mix_bits(x: Any) -> Any:
        return _as_floats(ops.mod(ops.bitwise_xor(x * 7, ops.floor_divide(x, 3)), 1000) > 500)

    assert _reference(mix_bits, "int64").roles["x"].borders == Borders()
    both = _reference(lambda x: mix_bits(x) + _as_floats(ops.equal(x, 77)), "int64").roles["x"].borders
    assert {76, 77, 78} <= set(both.beside)


@pytest.mark.quick_rows(6)
@pytest.mark.parametrize(
    ("function", "exact", "rounded"),
    [
        (lambda x: _as_floats(x >= 18), [18], [0]),
        (lambda x: _as_floats(x / 2 >= 9), [18], []),
        (ops.round, [-1.5, 0.5, 1.5], [0, 1]),
        (lambda x: ops.sign(layers.Dense(2)(x)), [0], [1]),
        (lambda x: _as_floats(x >= 0.1), [], [0.1]),
        (lambda x: _as_floats(x / 3 >= 3), [], [9]),
        (lambda x: ops.floor(8 * x), [-0.125, 0, 1], []),
        (lambda x: ops.sign((x - 128) / 64), [128], []),
        (lambda x: ops.sign((x - 127.5) / 127.5), [], [127.5]),
        (lambda x: _as_floats((x + 0.1) - 0.1 >= 0.25), [], [0.25]),
        (lambda x: _as_floats(ops.mean(x, axis=-1) >= 5), [], [5]),
        (lambda x: _as_floats(x >= 9) + _as_floats(x / 3 >= 3), [], [9]),
    ],
    ids=["input", "half", "ties", "zero", "0.1", "third", "steps", "power of 2", "folded", "lost bits", "mean", "both"],
)
def test_a_value_on_a_border_is_drawn_only_if_no_rounding_can_move_the_compared_values(
    function: Callable[..., Any], exact: list[float], rounded: list[float]
) -> None:
    """A correct file may multiply by 1 / 3 instead of dividing by 3, or fold a subtraction into a product."""
    role = _reference(function).roles.get("x", Role("values"))
    assert set(exact) <= set(role.borders.exact)
    assert not set(rounded) & set(role.borders.exact)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (lambda x: _as_floats(ops.cast(x, "uint8")), 0, 256),
        (lambda x: _as_floats(ops.cast(x * 255, "uint8")), 0, 256 / 255),
        (lambda x: layers.Embedding(12, 2)(ops.cast(x / 10, "int32") + 3), -160, 90),
    ],
    ids=["cast", "scaled cast", "rows of a table"],
)
def test_values_that_a_cast_or_a_table_cannot_take_are_left_out(
    function: Callable[..., Any], low: float, high: float
) -> None:
    borders = _reference(function).roles["x"].borders
    assert borders.low == pytest.approx(low, abs=1e-4)
    assert borders.high == pytest.approx(high)
    assert all(borders.low <= value < borders.high for value in borders.beside)


@pytest.mark.parametrize(
    ("function", "is_wide"),
    [
        (lambda x: ops.mod(x * 7919, 1000), True),
        (lambda x: layers.IntegerLookup(vocabulary=[10, 20])(x), True),
        (lambda x: layers.Embedding(1000, 2)(x), False),
        (lambda x: Counted()(x), False),
    ],
    ids=["product", "lookup", "rows", "size"],
)
def test_integers_are_wide_unless_the_model_refuses_them_or_makes_a_tensor_of_their_size(
    function: Callable[..., Any], is_wide: bool
) -> None:
    reference = _reference(function, "int64")
    assert reference.roles.get("x", Role("values")).is_wide is is_wide
    drawn = [case.inputs["x"] for case in sweep(reference.inputs, reference.roles, 0, reference.dimensions)]
    assert any((array > 2**32).any() and (array < -(2**31)).any() for array in drawn) is is_wide


def test_each_value_is_dealt_to_each_column_and_to_a_row_of_its_own() -> None:
    values = tuple(range(5))
    array = dealt(values, (10, 3))
    assert {row[0] for row in array if len(set(row.tolist())) == 1} == set(values)
    assert all(set(column.tolist()) == set(values) for column in array.T)


def test_borders_outside_the_range_that_was_given_are_not_drawn() -> None:
    found = {"x": Role("values", borders=Borders(beside=(-5.0, 0.5, 7.0), exact=(18.0,)))}
    assert range_roles({"x": (0, 7)}, found)["x"].borders == Borders(beside=(0.5,))


def _bins(last: float) -> Callable[[Any], Any]:
    return lambda x: layers.Dense(2)(_as_floats(layers.Discretization(bin_boundaries=[0.0, 10.0, last])(x)))


def _hash_inputs(dtype: str) -> Callable[[Any], Any]:
    return lambda x: _as_floats(ops.mod(ops.cast(ops.cast(x, dtype), "int64") * 7919, 1009))


def _scores_above(threshold: float) -> Callable[[Any], Any]:
    return lambda x: _as_floats(layers.Dense(4, "softmax")(layers.Dense(8, "relu")(x)) > threshold)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("dtype", "function", "wrong"),
    [
        ("float32", _bins(20.0), _bins(20.05)),
        ("float32", lambda x: _as_floats(x > 18), lambda x: _as_floats(x >= 18)),
        ("int64", _hash_inputs("int64"), _hash_inputs("int32")),
        ("int64", _hash_inputs("int64"), _hash_inputs("int16")),
        ("float32", lambda x: ops.where(3 * x > 1.1, x, -x), lambda x: ops.where(3 * x > 1.12, x, -x)),
        ("float32", _scores_above(0.25), _scores_above(0.255)),
    ],
    ids=["a bin", "an equal value", "int32", "int16", "a threshold", "a score"],
)
def test_a_file_that_decides_otherwise_at_one_border_fails(
    dtype: str, function: Callable[..., Any], wrong: Callable[..., Any], tmp_path: Path
) -> None:
    x = keras.Input((3,), dtype=dtype, name="x")
    files = []
    for name, each in (("right", function), ("wrong", wrong)):
        keras.utils.set_random_seed(0)
        model = keras.Model(x, each(x))
        files.append(export_onnx(model, tmp_path / f"{name}.onnx").path)
    keras.utils.set_random_seed(0)
    model = keras.Model(x, function(x))
    for file, passes in zip(files, (True, False), strict=True):
        assert check_parity(model, file, runtimes=["onnxruntime[all]"]).passed is passes


def test_all_values_beside_a_decision_are_tried_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    x = keras.Input((4,), name="x")
    reference = KerasReference(keras.Model(x, layers.ReLU(threshold=0.6)(x)))
    rows, usual = list[int](), Signature.call

    def call(signature: Signature, model: Any, arrays: Any) -> Any:
        rows.append(len(arrays["x"]))
        return usual(signature, model, arrays)

    monkeypatch.setattr(Signature, "call", call)
    borders = reference.roles["x"].borders
    needed = 2 * max(len(borders.beside), len(borders.exact))
    assert [each for each in rows if each > 3] == [needed]  # the example has fewer rows
