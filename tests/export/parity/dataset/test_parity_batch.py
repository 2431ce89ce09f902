"""The check of one batch inside another engine reports every row, whatever the runtime does."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from keras_pe.export import Acceptance, ParityBatch, check_dataset
from tests.cli.test_check_data import write_model
from tests.raised import about


def unloadable(path: Path) -> Path:
    """Puts an operator that no runtime has into a file."""
    model = onnx.load(path)
    model.graph.node[0].domain = "of.nobody"
    model.opset_import.append(onnx.helper.make_opsetid("of.nobody", 1))
    onnx.save(model, path)
    return path


def test_every_row_of_an_artifact_that_does_not_load_fails(tmp_path: Path) -> None:
    model, broken = (write_model(tmp_path / name, None) for name in ("model.onnx", "broken.onnx"))
    found = ParityBatch(model, unloadable(broken))({"x": np.ones((3, 4), np.float32)})
    assert found["failed"].tolist() == [True] * 3
    assert found["error"].tolist() == [np.inf] * 3


def test_neither_of_two_artifacts_is_passed_over(tmp_path: Path) -> None:
    model, other = (write_model(tmp_path / name, None) for name in ("model.onnx", "other.onnx"))
    with pytest.raises(TypeError, check=about("artifact")):
        ParityBatch(model, [model, other])  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "kind"), [("batching", "Batching"), ("acceptance", "Acceptance")])
def test_a_column_of_another_type_is_refused_before_a_worker_fails_at_it(tmp_path: Path, name: str, kind: str) -> None:
    model, data = write_model(tmp_path / "model.onnx", None), {"x": np.ones((3, 4), np.float32)}
    given: dict[str, Any] = {name: {"batch_size": 2}}
    with pytest.raises(TypeError, match=f"`{name}` must be of type {kind}"):
        check_dataset(model, model, data, workers=0, **given)
    with pytest.raises(TypeError, match=f"`{name}` must be of type {kind}"):
        ParityBatch(model, model, **given)(data)


@pytest.mark.parametrize("given", [{"stop_after": 3}, {"allow_changed": 0.1}, {"least_compared": 0.9}])
def test_a_batch_refuses_a_field_that_concerns_a_whole_data_set(tmp_path: Path, given: dict[str, Any]) -> None:
    model = write_model(tmp_path / "model.onnx", None)
    with pytest.raises(ValueError, check=about(*given)):
        ParityBatch(model, model, acceptance=Acceptance(**given))
