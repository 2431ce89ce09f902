"""A model of more than 2 GiB, which neither Keras nor tf2onnx can write."""

from pathlib import Path

import keras
import numpy as np
import onnxruntime as ort
import pytest
import tensorflow as tf

from keras_pe.export import export_onnx


@pytest.mark.slow
def test_a_model_of_more_than_two_gibibytes_is_exported_and_agrees(tmp_path: Path) -> None:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    embed = keras.layers.Embedding(550_000, 1024, embeddings_initializer="zeros", name="embed")
    model = keras.Model(tokens, embed(tokens))
    rows = np.array([[0, 1, 274_999, 549_999]], "int32")
    # Rows that can be told apart; filling all of them with random numbers would take longer than the export.
    table = embed.embeddings.value
    table.scatter_update(tf.IndexedSlices(rows[0][:, None] + np.arange(1024.0, dtype="f"), rows[0]))
    artifact = export_onnx(model, tmp_path / "large.onnx")
    assert artifact.path.stat().st_size < 2**20 < 2**31 < artifact.nbytes
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(
        session.run(None, {"tokens": rows})[0], rows[..., None] + np.arange(1024.0, dtype="f")
    )
