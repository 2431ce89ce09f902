"""A check that compares too little fails, and reads each artifact once for all runtimes."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import keras_pe
from keras_pe.export import Cause, check_parity, export_onnx
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import StoredReference
from keras_pe.export.parity.coverage import with_coverage
from keras_pe.export.records import Finding, RuntimeResult, StoredWeights
from keras_pe.export.results import RunStatus
from keras_pe.export.runtimes import RuntimeSpec
from keras_pe.export.runtimes.runner import InProcessRunner
from tests.raised import about

ROUNDED = (Finding(Cause.ROUNDED_VALUES, "to float16"),)
DAMAGED = (Finding(Cause.CHANGED_VALUES, "in the last row"),)
STRICT = RuntimeResult("m.onnx", "onnx", "onnxruntime[disabled]", True, RunStatus.COMPARED)
ACCEPTED = dataclasses.replace(STRICT, runtime="onnxruntime[all]", is_accepted=True, findings=ROUNDED)
WEIGHTS = StoredWeights(2, 2, 64, 64)


@pytest.mark.parametrize(("first", "second"), [(STRICT, ACCEPTED), (ACCEPTED, STRICT)])
@pytest.mark.parametrize("faults", [(), DAMAGED])
def test_an_acceptance_is_reported_for_its_runtime_alone_and_a_damaged_weight_for_all(
    first: RuntimeResult, second: RuntimeResult, faults: tuple[Finding, ...]
) -> None:
    looked_into = dataclasses.replace(first, weights=WEIGHTS, passed=not faults, findings=faults or first.findings)
    runner = InProcessRunner(RuntimeSpec("none", "onnx", "no:where", "none", ""), None, None)
    reference = StoredReference("stored", Case("one", {"x": np.ones(1)}, ""), {})
    found = with_coverage(second, runner, reference, (), [looked_into])
    assert (found.weights, found.passed, found.findings) == (WEIGHTS, not faults, faults or second.findings)


@pytest.fixture(scope="module")
def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    return keras.Model(x, keras.layers.Dense(4, kernel_initializer="ones", name="y")(x))


@pytest.fixture(scope="module")
def file(model: keras.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_onnx(model, tmp_path_factory.mktemp("file") / "m.onnx").path


ROWS = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
NOTHING = {
    "a batch of 0": ROWS[:0],
    "values that overflow": np.full_like(ROWS, 3e38),
    "only NaN": np.full_like(ROWS, np.nan),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("given", NOTHING)
def test_inputs_of_which_nothing_is_compared_fail_without_a_cause(model: keras.Model, file: Path, given: str) -> None:
    report = check_parity(model, file, inputs={"x": NOTHING[given]}, runtimes="onnxruntime[all]")
    (result,) = report.results
    assert (report.passed, result.findings, result.compared_share, result.compared_cases) == (False, (), 0.0, 0)
    assert "ranges=" in result.error


def test_numbers_as_python_objects_are_compared_and_other_objects_are_refused(model: keras.Model, file: Path) -> None:
    report = check_parity(model, file, inputs={"x": ROWS.astype(object)}, runtimes="onnxruntime[all]")
    assert (report.passed, report.compared) == (True, 16)
    for other in (np.full(ROWS.shape, "a", object), np.array([None] * 6, object)[None]):
        with pytest.raises(ValueError, match=r"`inputs` must fit their types: 'x' is float32.*Python objects"):
            check_parity(model, file, inputs={"x": other}, runtimes="onnxruntime[all]")


def test_a_check_of_less_than_half_fails_unless_less_is_asked_for(model: keras.Model, file: Path) -> None:
    rows = ROWS.copy()
    rows[:3] = np.nan
    found = [
        check_parity(model, file, inputs={"x": rows}, runtimes="onnxruntime[all]", **asked).results[0]
        for asked in ({}, {"least_compared": 0.25}, {"least_compared": 0.26})
    ]
    assert [each.passed for each in found] == [False, True, False]
    assert {each.compared_share for each in found} == {0.25}
    assert "25% of the values" in found[0].error
    for wrong in (-0.1, 1.5, "half"):
        with pytest.raises(ValueError, check=about("least_compared")):
            check_parity(model, file, least_compared=wrong)


def test_cases_that_the_model_refuses_count_as_not_compared(model: keras.Model, file: Path) -> None:
    cases = [{"x": ROWS}, *({"x": np.ones((2, 6 + more), np.float32)} for more in range(1, 9))]
    report = check_parity(model, file, inputs=cases, runtimes="onnxruntime[all]")
    (result,) = report.results
    assert (report.passed, result.compared_cases, len(result.cases)) == (False, 1, 9)
    assert result.compared_share == pytest.approx(1 / 9)
    assert "1 of 9" in str(report)
    assert check_parity(model, file, inputs=cases, runtimes="onnxruntime[all]", least_compared=0.1).passed


def _with_constant(file: Path, path: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Path:
    stored = onnx.load(file)
    (tensor,) = [each for each in stored.graph.initializer if each.name == name]
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), name))
    onnx.save(stored, path)
    return path


@pytest.mark.slow
def test_a_table_without_its_last_rows_fails_though_no_case_reaches_them(tmp_path: Path) -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras_pe.LearnedPositionEmbedding(max_length=600, name="positions")(x))
    file = export_onnx(model, tmp_path / "m.onnx").path
    cut = _with_constant(file, tmp_path / "cut.onnx", "positions/embeddings", lambda table: table[:590].copy())
    sound, damaged = (check_parity(model, each, runtimes="onnxruntime[all]") for each in (file, cut))
    assert sound.passed, str(sound)
    (finding,) = damaged.results[0].findings
    assert (damaged.passed, finding.cause, finding.layer) == (False, Cause.OTHER_SHAPE, "positions")
    assert "first 590 of 600 rows" in finding.evidence


@pytest.mark.slow
def test_an_array_that_the_model_holds_in_a_call_is_compared_as_its_weights_are(tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    x = keras.Input((10, 8), name="x")
    rows = keras.layers.Embedding(10, 8)(keras.ops.arange(10))
    model = keras.Model(x, keras.layers.Dense(3, name="y")(x + rows))
    file = export_onnx(model, tmp_path / "m.onnx").path
    name = next(each.name for each in onnx.load(file).graph.initializer if list(each.dims) == [10, 8])

    def negate(table: np.ndarray) -> np.ndarray:
        table[3] *= -1
        return table

    options = {"runtimes": "onnxruntime[all]", "require_coverage": True}
    (sound,) = check_parity(model, file, **options).results
    assert (sound.passed, sound.weights.compared, sound.weights.count) == (True, 3, 3)
    damaged = _with_constant(file, tmp_path / "damaged.onnx", name, negate)
    (found,) = check_parity(model, damaged, diagnosis_seconds=5, **options).results
    assert not found.passed
    assert "Index 3 of axis 0" in found.findings[0].evidence
