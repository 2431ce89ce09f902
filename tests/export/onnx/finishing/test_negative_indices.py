"""An embedding is one operator, and takes indices from the end as Keras does."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime

from keras_pe.export import export_onnx


def test_a_gather_counts_negative_indices_itself(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((None,), dtype="int32", name="x"), keras.layers.Embedding(7, 3)])
    artifact = export_onnx(model, tmp_path / "model.onnx")
    assert [node.op_type for node in onnx.load(artifact.path).graph.node] == ["Gather"]
    asked = np.array([[-7, -1, 0, 6]], "int32")
    found = onnxruntime.InferenceSession(artifact.path).run(None, {"x": asked})[0]
    np.testing.assert_array_equal(found, keras.ops.convert_to_numpy(model(asked)))


def test_indices_that_are_moved_otherwise_stay(tmp_path: Path) -> None:
    x = keras.Input((None,), dtype="int32", name="x")
    moved = keras.ops.where(x < 0, x + 5, x)  # the table has 7 rows
    model = keras.Model(x, keras.layers.Embedding(7, 3)(moved))
    artifact = export_onnx(model, tmp_path / "model.onnx")
    assert "Where" in [node.op_type for node in onnx.load(artifact.path).graph.node]
