"""The check of one batch inside another engine: every row is told of, whatever the runtime does."""

from pathlib import Path

import numpy as np
import onnx

from keras_pe.export import ParityBatch
from tests.cli.test_check_data import write_model


def unloadable(path: Path) -> Path:
    """Puts an operator that no runtime has into a file."""
    model = onnx.load(path)
    model.graph.node[0].domain = "of.nobody"
    model.opset_import.append(onnx.helper.make_opsetid("of.nobody", 1))
    onnx.save(model, path)
    return path


def test_of_an_artifact_that_does_not_load_every_row_fails(tmp_path: Path) -> None:
    model, broken = (write_model(tmp_path / name, None) for name in ("model.onnx", "broken.onnx"))
    found = ParityBatch(model, unloadable(broken))({"x": np.ones((3, 4), np.float32)})
    assert found["failed"].tolist() == [True] * 3
    assert found["error"].tolist() == [np.inf] * 3
