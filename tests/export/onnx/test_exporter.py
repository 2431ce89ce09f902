"""The promises of an ONNX export."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf

import keras_pe
from keras_pe.export import ExportError, export_onnx
from tests.export.counting import Counting
from tests.export.onnx.exported import Apply, export_and_compare, run_file

RNG = np.random.default_rng(0)


def encoder() -> keras.Model:
    """Two inputs of one length, attention, recurrence, a scalar, an input passed through, names that must change."""
    keras.utils.clear_session()  # counts the names of layers anew
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    segments = keras.Input((None,), dtype="int32", name="my segments")
    embedded = keras.layers.Embedding(10, 8, name="words")(tokens) + keras.layers.Embedding(2, 8)(segments)
    encoded = keras_pe.SinusoidalPositionEncoding(name="positions")(embedded)
    attended = keras.layers.MultiHeadAttention(2, 4, name="attend")(encoded, encoded)
    hidden = keras.layers.LayerNormalization()(attended + encoded)
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))(hidden)
    logits = keras.layers.Dense(4, name="logits")(keras.layers.Dropout(0.3)(recurrent))
    return keras.Model([tokens, segments], {"logits": logits, "tokens out": tokens})


def sequential(*layers: keras.layers.Layer, shape: tuple[int | None, ...] = (None, 8)) -> keras.Model:
    """The layers after an input called `values`."""
    return keras.Sequential([keras.Input(shape, name="values"), *layers], name="model")


def values(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape or (2, 3, 8)).astype("float32")


def tokens_and_segments(batch: int, length: int) -> dict[str, Any]:
    return {
        "tokens": RNG.integers(0, 10, (batch, length)).astype("int32"),
        "my_segments": RNG.integers(0, 2, (batch, length)).astype("int32"),
    }


@pytest.mark.parametrize(
    "opset", [pytest.param(15, marks=pytest.mark.slow), 18, pytest.param(25, marks=pytest.mark.slow)]
)
def test_the_file_agrees_with_keras_at_sizes_that_were_never_traced(artifact: Any, opset: int) -> None:
    model, file = encoder(), artifact(encoder, "onnx", opset_version=opset)
    assert file.opset_version == opset
    assert [spec.name for spec in file.outputs] == ["logits", "tokens_out"]
    for batch, length in ((1, 1), (2, 5), (3, 40)):
        arrays = tokens_and_segments(batch, length)
        expected = model([arrays["tokens"], arrays["my_segments"]])
        logits, tokens = run_file(file.path, **arrays)
        # A few hundred float32 roundings of values near 1, each at most 6e-8.
        np.testing.assert_allclose(logits, expected["logits"], atol=5e-6, rtol=0)
        np.testing.assert_array_equal(tokens, expected["tokens out"])


def test_names_dimensions_and_metadata_are_in_the_file(artifact: Any) -> None:
    model = onnx.load(artifact(encoder, "onnx", opset_version=18).path)
    dimensions = {x.name: [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input}
    assert dimensions == {"tokens": ["batch", "length"], "my_segments": ["batch", "length"]}
    output = model.graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in output] == ["batch", "length", 4]
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert '"my_segments": "my segments"' in metadata["keras_pe.names"]
    assert '"max_timescale": 10000.0' in metadata["keras_pe.encodings"]
    assert metadata["version.keras"] == keras.__version__
    names = {tensor.name for tensor in model.graph.initializer}
    assert {"attend/query/kernel", "logits/kernel", "words/embeddings"} <= names
    assert not {"Einsum", "ReduceProd"} & {node.op_type for node in model.graph.node}


def test_an_eager_tensor_that_a_layer_kept_becomes_a_weight_and_no_input(tmp_path: Path) -> None:
    kept = tf.constant(RNG.normal(size=(300, 8)).astype("float32"))
    export_and_compare(sequential(Apply(lambda x: x @ tf.transpose(kept))), tmp_path / "m.onnx", values(), atol=5e-6)


def test_an_input_that_nothing_uses_is_still_an_input(tmp_path: Path) -> None:
    used, unused = keras.Input((2,), name="used"), keras.Input((3,), name="unused")
    artifact = export_onnx(keras.Model([used, unused], used * 2.0), tmp_path / "m.onnx")
    run_file(artifact.path, used=np.ones((1, 2), "float32"), unused=np.ones((1, 3), "float32"))


NOISE = "layer 'noisy' .* draws random numbers"


@pytest.mark.parametrize(("layer", "words"), [
    (lambda: Counting(name="counter"), "variable 'model/counter/count' changes with every call"),
    (lambda: Apply(lambda x: x + keras.random.normal((8,)), name="noisy"), NOISE),
    (lambda: Apply(lambda x: keras.ops.where(False, keras.random.normal((8,)), x), name="noisy"), NOISE),
    (lambda: Apply(lambda x: keras.ops.svd(x)[1], name="rank"), "'Svd' of layer 'rank' .* ONNX has no decompositions"),
])  # fmt: skip
def test_operators_without_an_onnx_form_are_refused_by_name_and_nothing_is_written(
    tmp_path: Path, layer: Any, words: str
) -> None:
    with pytest.raises(ExportError, match=words):
        export_onnx(sequential(layer()), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_weights_past_the_threshold_go_to_a_file_beside_it(tmp_path: Path) -> None:
    model = sequential(keras.layers.Dense(300))
    inline = export_onnx(model, tmp_path / "inline.onnx")
    outside = export_onnx(model, tmp_path / "outside.onnx", external_data_threshold=1000)
    assert [path.name for path in tmp_path.glob("inline*")] == ["inline.onnx"]
    (data,) = tmp_path.glob("outside.onnx.*.data")
    assert outside.nbytes == outside.path.stat().st_size + data.stat().st_size
    x = values()
    results = [run_file(path, values=x)[0] for path in (inline.path, outside.path)]
    np.testing.assert_array_equal(*results)


_EXPORT = """
import sys, keras, keras_pe
from keras_pe.export import export_onnx
export_onnx(keras.saving.load_model(sys.argv[1]), sys.argv[2], opset_version=18)
"""


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path: Path, artifact: Any) -> None:
    encoder().save(tmp_path / "encoder.keras")
    command = [sys.executable, "-c", _EXPORT, tmp_path / "encoder.keras", tmp_path / "model.onnx"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": "."})
    assert (tmp_path / "model.onnx").read_bytes() == artifact(encoder, "onnx", opset_version=18).path.read_bytes()


def test_a_layer_that_computes_in_float8_is_refused_by_name_with_the_way_out(tmp_path: Path) -> None:
    layer = keras.layers.Dense(16, name="narrow")
    model = keras.Sequential([keras.Input((16,)), layer], name="net")
    layer.quantize("float8")
    with pytest.raises(ExportError, match=r"layer 'narrow' computes in float8.* quantize it to int8") as refused:
        export_onnx(model, tmp_path / "m.onnx")
    assert refused.value.layer == "narrow"


# Each argument with values of another type, and then with values out of range.
REFUSED: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "opset_version": ((18.0, "18", True, None), (14, 26)),
    "half_precision": (("yes", 1, None), ()),
    "external_data_threshold": (("1 MB", 1e6), (-1,)),
}


@pytest.mark.parametrize(("argument", "given", "kind"), [
    (argument, each, kind)
    for argument, values in REFUSED.items()
    for kind, given in zip((TypeError, ValueError), values, strict=True)
    for each in given
])  # fmt: skip
def test_an_argument_of_another_kind_is_refused_by_name(
    tmp_path: Path, argument: str, given: Any, kind: type[Exception]
) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(kind, match=rf"^`{argument}` must be .*Received: {argument}={given!r}"):
        export_onnx(model, tmp_path / "m.onnx", **{argument: given})
    assert not list(tmp_path.iterdir())
