"""Weights are beside their file, once for several files and above 2 GiB, and each file computes as before."""

from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from onnx import TensorProto, helper

from keras_pe.export import export_onnx
from keras_pe.export.artifacts.onnx_model import weight_files
from keras_pe.export.graph.trace_function import Weight
from keras_pe.export.onnx.file_writer import share_weights, write_model
from tests.export.onnx.exported import run_file

_RNG = np.random.default_rng(0)
_TABLE, _ENCODER, _DECODER = (_RNG.normal(size=(40, 16)).astype("float32") for _ in range(3))


def _written(path: Path, **arrays: np.ndarray) -> Path:
    """Writes a model that returns the sum of the arrays."""
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [40, 16])
    graph = helper.make_graph([helper.make_node("Sum", [*arrays], ["y"])], "graph", [], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    write_model(model, [Weight(name, name, array) for name, array in arrays.items()], path, external=True)
    return path


def _output(path: Path) -> np.ndarray:
    onnx.checker.check_model(path)
    return run_file(path)[0]


def test_a_weight_of_two_files_is_stored_once_under_any_name(tmp_path: Path) -> None:
    bias = np.ones(16, "float32")  # too small for a second file
    encoder = _written(tmp_path / "encoder.onnx", table=_TABLE, own=_ENCODER, bias=bias)
    decoder = _written(tmp_path / "decoder.onnx", own=_DECODER, tokens=_TABLE, bias=bias)
    expected = _output(encoder), _output(decoder)
    share_weights([encoder, decoder], "shared")
    np.testing.assert_array_equal((_output(encoder), _output(decoder)), expected)
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert [stored.count(array.tobytes()) for array in (_TABLE, _ENCODER, _DECODER)] == [1, 1, 1]
    used = [{*weight_files(file).values()} for file in (encoder, decoder)]
    (shared,) = used[0] & used[1]
    assert shared.name.startswith("shared.")
    assert used[0] | used[1] | {encoder, decoder} == {*tmp_path.iterdir()}


def test_files_without_a_common_weight_stay_as_they_are(tmp_path: Path) -> None:
    files = [_written(tmp_path / "a.onnx", own=_ENCODER), _written(tmp_path / "b.onnx", own=_DECODER)]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    share_weights(files, "shared")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


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
    (found,) = run_file(artifact.path, tokens=rows)
    np.testing.assert_array_equal(found, rows[..., None] + np.arange(1024.0, dtype="f"))
