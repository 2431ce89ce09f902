"""A model that takes batches of one size only is run on any number of rows, and nothing of the filling is counted."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.parity.data.batching import fill_up, run_whole_batches
from keras_pe.export.parity.dataset.check_dataset import check_dataset
from tests.cli.test_check_data import write_model

TAKES = (TensorInfo("x", (3, 2), "float32"), TensorInfo("y", (3,), "int32"))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7])
def test_every_row_is_answered_once_and_in_order(rows: int) -> None:
    asked = []

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        asked.append({name: array.shape for name, array in inputs.items()})
        return {"sum": inputs["x"].sum(axis=1) + inputs["y"]}

    inputs = {"x": np.arange(2.0 * rows).reshape(rows, 2), "y": np.arange(rows)}
    found = run_whole_batches(run, TAKES, inputs)
    np.testing.assert_array_equal(found["sum"], inputs["x"].sum(axis=1) + inputs["y"])
    assert asked == [{"x": (3, 2), "y": (3,)}] * -(-rows // 3)


def test_the_last_row_fills_a_batch_up() -> None:
    assert fill_up({"y": np.array([5, 6])}, TAKES)["y"].tolist() == [5, 6, 6]


def fix_batch(path: Path, batch: int) -> Path:
    """Makes the batch of a file static."""
    model = onnx.load(path)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    onnx.save(model, path)
    return path


@pytest.mark.slow
def test_a_wrong_row_of_a_batch_that_is_not_whole_is_found_and_looked_into(tmp_path: Path) -> None:
    model, wrong = write_model(tmp_path / "model.onnx", None), write_model(tmp_path / "wrong.onnx", 9.0)
    x = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
    x[9, 2] = 10.0
    report = check_dataset(fix_batch(model, 4), fix_batch(wrong, 4), {"x": x}, workers=0)
    (result,) = report.results
    assert (result.statistics.rows, result.statistics.failed) == (10, 1)
    assert result.statistics.worst[0].row == 9
    assert report.diagnosis is not None
    assert not report.diagnosis.passed
    assert [case.inputs for case in report.diagnosis.cases] == [{"x": "float32 (4, 4)"}]
