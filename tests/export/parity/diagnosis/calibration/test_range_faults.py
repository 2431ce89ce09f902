"""Faults of calibration are found by name in the layer that has them, and well-made ranges have none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export import Cause
from keras_pe.export.parity.diagnosis.calibration.range_faults import find_calibration_faults
from keras_pe.export.parity.diagnosis.calibration.rounding_costs import measure_rounding, squared_change
from keras_pe.export.results import Array, Finding
from tests.export.parity.diagnosis.calibration.integer_graphs import COLUMNS, IntegerGraph

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(64, 8)).astype(np.float32)
KERNEL = (RNG.normal(size=(8, 8)) / np.sqrt(8)).astype(np.float32)
SERIES = RNG.normal(size=(4, 12, 8)).astype(np.float32)
HIDDEN, LARGEST = ROWS @ KERNEL, float(np.abs(ROWS @ KERNEL).max())


def two_layers(low: float, high: float, kernel: Array = KERNEL, dtype: str = "int8", end: float = 4.0) -> IntegerGraph:
    """The layers "first" and "last", of which the first is rounded to a range."""
    graph = IntegerGraph(8)
    x = graph.round_tensor("x", -end, end)
    first = graph.round_tensor(graph.add("MatMul", "first", x, kernel), low, high, dtype)
    graph.result = graph.add("MatMul", "last", first, KERNEL)
    return graph


def with_result(graph: IntegerGraph, result: str) -> IntegerGraph:
    graph.result = result
    return graph


def moved_input() -> IntegerGraph:
    graph = IntegerGraph(8)
    moved = graph.add("Gather", "moved", "x", np.arange(8, dtype=np.int32)[::-1].copy(), axis=1)
    return with_result(graph, graph.add("MatMul", "last", graph.round_tensor(moved, -4, 4), KERNEL))


def large_channel() -> IntegerGraph:
    kernel = KERNEL * np.where(np.arange(8) == 3, 200, 1).astype(np.float32)
    end = float(np.abs(ROWS @ kernel).max())
    return two_layers(-end, end, kernel)


def one_scale(operator: str, small: float, **attributes: int) -> IntegerGraph:
    graph = IntegerGraph(8)
    parts = [graph.add("Mul", name, "x", np.float32(size)) for name, size in (("small", small), ("large", 1.0))]
    result = graph.round_tensor(graph.add(operator, "join", *parts, **attributes), -7, 7)
    return with_result(
        graph, graph.add("MatMul", "last", result, RNG.normal(size=(16 if attributes else 8, 4)).astype("f4"))
    )


def positions(size: float, end: float) -> IntegerGraph:
    graph = IntegerGraph("length", 8)
    table = np.sin(np.arange(12)[:, None] / 3.0 ** np.arange(8)).astype(np.float32)
    words = graph.add("Mul", "words", "x", np.float32(size))
    total = graph.round_tensor(graph.add("Add", "signal", words, table), -end, end)
    return with_result(graph, graph.add("MatMul", "last", total, KERNEL))


def angles(step: float) -> IntegerGraph:
    graph = IntegerGraph("length", 8)
    angle = graph.add("Mul", "angle", "x", np.float32(30 * step))
    return with_result(graph, graph.add("Sin", "sine", graph.round_tensor(angle, -128 * step, 127 * step)))


def softmax(end: float, length: int, is_twice: bool = False) -> IntegerGraph:
    graph = IntegerGraph(8)
    scores = graph.add("MatMul", "scores", "x", RNG.normal(size=(8, length)).astype("f4") / 8)
    shares = graph.round_tensor(graph.add("Softmax", "shares", scores), 0, end, "uint8")
    last = graph.add("MatMul", "last", shares, RNG.normal(size=(length, 4)).astype("f4"))
    return with_result(
        graph, graph.round_tensor(graph.add("Softmax", "class", last), 0, end, "uint8") if is_twice else last
    )


def divisor(end: float) -> IntegerGraph:
    graph = IntegerGraph(8)
    squares = graph.add("Add", "squares", graph.add("Mul", "norm", "x", "x"), np.full((1, 1), 0.01, "f4"))
    return with_result(graph, graph.add("Sqrt", "root", graph.round_tensor(squares, 0, end, "uint8")))


def equal_scales() -> IntegerGraph:
    graph = IntegerGraph(8)
    large = graph.round_tensor(graph.add("MatMul", "large", "x", KERNEL), -4, 4)
    small = graph.round_tensor(graph.add("Mul", "small", "x", np.float32(0.02)), -4, 4)
    small = graph.add("Mul", "larger", small, np.float32(50))
    return with_result(graph, graph.add("Add", "sum", large, small))


FAULTS: dict[str, tuple[Callable[[], IntegerGraph], Array, str, str]] = {
    "cut": (lambda: two_layers(-0.5, 0.5), ROWS, Cause.CLIPPED_RANGE, "first"),
    "cut above": (lambda: two_layers(-LARGEST, 0.7), ROWS, Cause.CLIPPED_RANGE, "first"),
    "wide": (lambda: two_layers(-60, 60), ROWS, Cause.DEAD_RANGE, "first"),
    "wide on one side": (lambda: two_layers(-3, 200), ROWS, Cause.DEAD_RANGE, "first"),
    "tiny": (lambda: two_layers(-1e-7, 1e-7), ROWS, Cause.TINY_SCALE, "first"),
    "unsigned": (lambda: two_layers(0, LARGEST, dtype="uint8"), ROWS, Cause.UNSIGNED_RANGE, "first"),
    "unsigned in int8": (lambda: two_layers(0, LARGEST), ROWS, Cause.UNSIGNED_RANGE, "first"),
    "outlier": (large_channel, ROWS, Cause.OUTLIER_CHANNEL, "first"),
    "sum": (lambda: one_scale("Add", 0.01), ROWS, Cause.SHARED_SCALE, "join"),
    "concatenation": (lambda: one_scale("Concat", 0.02, axis=1), ROWS, Cause.SHARED_SCALE, "join"),
    "equal scales": (equal_scales, ROWS, Cause.SHARED_SCALE, "small"),
    "positions": (lambda: positions(0.01, 1.1), SERIES, Cause.COARSE_POSITIONS, "signal"),
    "angles": (lambda: angles(4.0), SERIES, Cause.COARSE_POSITIONS, "angle"),
    "many shares": (lambda: softmax(1, 600), ROWS, Cause.COARSE_SOFTMAX, "shares"),
    "shares of two layers": (lambda: softmax(1, 600, is_twice=True), ROWS, Cause.COARSE_SOFTMAX, "shares"),
    "divisor": (lambda: divisor(20.0), ROWS, Cause.COARSE_NORMALIZATION, "squares"),
    "other rows, moved": (moved_input, ROWS * 5, Cause.OTHER_CALIBRATION, "x"),
    "other rows": (lambda: two_layers(-16, 16), ROWS * 5, Cause.OTHER_CALIBRATION, "x"),
}


def faults_of(folder: Path, graph: IntegerGraph, rows: Array, suffix: str = ".onnx") -> tuple[Finding, ...]:
    known = [HIDDEN] if rows is ROWS else []
    save = graph.save if suffix == ".onnx" else graph.save_litert
    path = save(folder / f"model{suffix}", graph.result)
    return find_calibration_faults(measure_rounding(path, [{"x": rows}], known))


each_format = pytest.mark.parametrize("suffix", [".onnx", ".tflite"])


@each_format
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_calibration_is_named_with_its_layer(tmp_path: Path, name: str, suffix: str) -> None:
    build, rows, cause, layer = FAULTS[name]
    found = faults_of(tmp_path, build(), rows, suffix)
    assert [(each.cause, each.layer) for each in found] == [(cause, layer)], found


def test_numbers_of_a_fault_are_parameters(tmp_path: Path) -> None:
    graph = large_channel()
    (found,) = faults_of(tmp_path, graph, ROWS)
    assert [(each.name, each.artifact) for each in found.parameters] == [("channel", 3)]
    (found,) = faults_of(tmp_path, two_layers(-0.5, 0.5), ROWS)
    cut = (np.abs(HIDDEN) > 0.5 * 256 / 255).mean()
    assert found.parameters[0].artifact == pytest.approx(cut, abs=0.02)


WELL_MADE = {
    "fitting": (lambda: two_layers(-LARGEST, LARGEST), ROWS),
    "a tenth wider": (lambda: two_layers(-1.1 * LARGEST, 1.5 * LARGEST), ROWS),
    "a few values cut": (lambda: two_layers(-0.97 * LARGEST, LARGEST), ROWS),
    "equal sums": (lambda: one_scale("Add", 0.5), ROWS),
    "equal parts": (lambda: one_scale("Concat", 0.3, axis=1), ROWS),
    "positions beside words": (lambda: positions(0.3, 2.2), SERIES),
    "fine angles": (lambda: angles(0.02), SERIES),
    "few shares": (lambda: softmax(1, 12), ROWS),
    "fine divisor": (lambda: divisor(0.8), ROWS * 0.2),
    "rows of calibration": (lambda: two_layers(-LARGEST, LARGEST), ROWS[:5]),
}


@each_format
@pytest.mark.parametrize("name", WELL_MADE)
def test_a_well_made_range_has_no_fault(tmp_path: Path, name: str, suffix: str) -> None:
    build, rows = WELL_MADE[name]
    assert faults_of(tmp_path, build(), rows, suffix) == ()


def test_a_range_that_replaces_an_activation_is_no_fault(tmp_path: Path) -> None:
    path = two_layers(0, LARGEST, dtype="uint8").save(tmp_path / "model.onnx", "last/MatMul")
    measured = measure_rounding(path, [{"x": ROWS}], [np.maximum(HIDDEN, 0)])
    assert find_calibration_faults(measured) == ()
    assert list(measured.cut.values()) == [(0.0, np.inf)]


@pytest.mark.parametrize("operator", ["", "SQUARED_DIFFERENCE", "SQUARE"])
@pytest.mark.parametrize(("size", "causes"), [(1.0, []), (0.003, [Cause.COARSE_NORMALIZATION])])
def test_rows_that_a_normalization_enlarges_need_steps_of_their_own_spread(
    tmp_path: Path, size: float, causes: list[Cause], operator: str
) -> None:
    graph, one = IntegerGraph(8), np.ones(8, np.float32)
    rows = ROWS * np.where(np.arange(64) < 8, size, 1).astype(np.float32)[:, None]
    hidden = graph.round_tensor(graph.add("MatMul", "first", "x", KERNEL), -LARGEST, LARGEST)
    path = graph.save(tmp_path / "model.onnx", graph.add("LayerNormalization", "norm", hidden, one, one))
    measured = measure_rounding(path, [{"x": rows}])
    if operator:  # as LiteRT has it
        (cost,) = measured.costs
        key, means = cost.tensor.key, tuple(each.mean(-1, keepdims=True) for each in cost.cases)
        whole = replace(cost.tensor, readers=(("MUL", 0), (operator, 0)))
        part = replace(cost.tensor, key=operator, operator=operator, given=(key,), readers=())
        mean = replace(part, key="mean", operator="MEAN", given=(operator if operator == "SQUARE" else key,))
        costs = (replace(cost, tensor=part), replace(cost, tensor=mean, cases=means))
        measured = replace(measured, costs=(replace(cost, tensor=whole), *costs))
    assert [each.cause for each in find_calibration_faults(measured)] == causes


def test_a_tensor_matters_by_its_share_or_by_its_own_change(tmp_path: Path) -> None:
    (*_, cost) = measure_rounding(two_layers(-60, 60).save(tmp_path / "model.onnx", "last/MatMul"), [{"x": ROWS}]).costs
    figures = [(0.2, 0.0), (0.0, 0.2), (0.05, 0.005)]
    assert [replace(cost, share=share, change=change).matters for share, change in figures] == [True, True, False]
    assert 0.01 < cost.change < 1  # steps of 0.47, or 0.14 of error, change values of about 1


@pytest.mark.parametrize(("size", "is_fault"), [(1.0, False), (300.0, True)])
def test_a_row_that_changes_with_the_range_of_its_batch_is_found(tmp_path: Path, size: float, is_fault: bool) -> None:
    graph = IntegerGraph(8)
    path = graph.save(tmp_path / "model.onnx", graph.round_each_call(graph.add("MatMul", "first", "x", KERNEL)))
    rows = ROWS[:6] * np.array([size, 1, 1, 1, 1, 1], np.float32)[:, None]
    measured = measure_rounding(path, [{"x": rows}])
    found = find_calibration_faults(measured)
    assert [each.cause for each in found] == [Cause.DEPENDENCE_ON_BATCH] * is_fault
    # Sums of eight products, and of two such sums: some ten roundings of numbers up to the largest.
    product = rows @ KERNEL @ COLUMNS
    np.testing.assert_allclose(measured.floats[0]["y"], product, rtol=0, atol=10 * 2.0**-24 * np.abs(product).max())


def test_equal_infinities_are_no_change() -> None:
    infinite = {"y": np.array([[np.inf, 1.0]], np.float32)}
    assert squared_change(infinite, infinite) == 0
