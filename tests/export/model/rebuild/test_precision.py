"""Half precision: rebuilt in float32 and said so, or kept on request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest

import keras_pe
from keras_pe.export import ExportError, UnsupportedError, export_onnx, model_signature, read_artifact


def _model(policy: str) -> keras.Model:
    inputs = keras.Input((None, 8), name="values", dtype="float32")
    encoded = keras_pe.SinusoidalPositionEncoding(dtype=policy)(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, activation="relu", name="out", dtype=policy)(encoded))


def _run(path: Path, values: Any) -> Any:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: values})[0]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bfloat16", "mixed_bfloat16", "float16", "mixed_float16"])
def test_half_precision_is_exported_as_a_float32_rebuild_that_says_so(tmp_path: Path, policy: str) -> None:
    model = _model(policy)
    artifact = export_onnx(model, tmp_path / "m.onnx")
    values = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    rebuilt = _model("float32")
    for mine, theirs in zip(rebuilt.weights, model.weights, strict=True):
        mine.assign(keras.ops.cast(theirs, "float32"))
    # Eight products of values near 1, each rounded once to float32.
    np.testing.assert_allclose(_run(artifact.path, values), rebuilt(values), atol=2e-6, rtol=0)
    assert "in float32" in artifact.notes[0]
    assert read_artifact(artifact.path).notes == artifact.notes


@pytest.mark.slow
def test_half_precision_on_request_keeps_the_encoding_within_half_a_unit_of_float16(tmp_path: Path) -> None:
    inputs = keras.Input((None, 8), name="values", dtype="float16")
    model = keras.Model(inputs, keras_pe.SinusoidalPositionEncoding(combine="replace", dtype="float16")(inputs))
    artifact = export_onnx(model, tmp_path / "m.onnx", half_precision=True)
    encoding = _run(artifact.path, np.zeros((1, 3000, 8), "float16"))
    exact = keras_pe.timing_signal(np.arange(3000), 8)
    assert encoding.dtype == np.float16
    assert artifact.notes == ()
    # Half a unit in the last place of float16 below 1 is 2**-12; the layer itself is exact to 2.5e-7.
    assert np.abs(encoding[0].astype("float64") - exact).max() <= 2**-12 + 2.5e-7


@pytest.mark.slow
def test_a_float32_model_becomes_float16_on_request(tmp_path: Path) -> None:
    model = _model("float32")
    artifact = export_onnx(model, tmp_path / "m.onnx", half_precision=True)
    values = np.random.default_rng(0).normal(size=(2, 5, 8))
    # Values up to 5 have a unit of 2**-8 in float16; eight products and a sum each lose half of one.
    np.testing.assert_allclose(_run(artifact.path, values.astype("float16")), model(values), atol=2e-2, rtol=0)


def test_a_half_precision_model_that_cannot_be_made_again_is_refused_with_a_way_out(tmp_path: Path) -> None:
    class Own(keras.Model):
        def __init__(self, width: int) -> None:
            super().__init__(dtype="bfloat16", name="own")
            self.dense = keras.layers.Dense(width, dtype="bfloat16")

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    model = Own(3)
    model(np.zeros((1, 2)))
    with pytest.raises(ExportError, match="Build it under the policy 'float32'"):
        export_onnx(model, tmp_path / "m.onnx", input_signature=[keras.InputSpec(shape=(None, 2), dtype="float32")])


# Keras warns that an InputLayer has nothing to quantize.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method:UserWarning")
def test_an_int8_model_keeps_its_weights_in_eight_bits(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((None, 8), name="values"), keras.layers.Dense(64), keras.layers.Dense(3)])
    model.quantize("int8")
    artifact = export_onnx(model, tmp_path / "m.onnx")
    kinds = {x.name.split("/")[-1]: x.data_type for x in onnx.load(artifact.path).graph.initializer if "/" in x.name}
    assert kinds["kernel"] == onnx.TensorProto.UINT8
    values = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    np.testing.assert_allclose(_run(artifact.path, values), model(values), atol=1e-5, rtol=0)


@pytest.fixture(params=["mixed_bfloat16", "mixed_float16", "bfloat16"])
def global_policy(request: pytest.FixtureRequest) -> Iterator[str]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.mark.slow
@pytest.mark.parametrize("half_precision", [False, True])
def test_a_global_policy_is_no_hindrance(tmp_path: Path, global_policy: str, half_precision: bool) -> None:
    inputs = keras.Input((None, 8), name="values", dtype="float32")
    model = keras.Model(inputs, keras.layers.Dense(3, activation="relu", name="out")(inputs))
    artifact = export_onnx(model, tmp_path / "m.onnx", half_precision=half_precision)
    values = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(artifact.inputs[0].dtype)
    # Eight products of values near 1, each rounded to 8 bits by bfloat16 and to 11 by float16, and their sum.
    np.testing.assert_allclose(_run(artifact.path, values), np.asarray(model(values), "float32"), atol=6e-2, rtol=0)
    assert artifact.inputs[0].dtype in ("float32", "float16" if half_precision else "float32")
    assert keras.config.dtype_policy().name == global_policy


def test_a_signature_is_handed_on_to_the_rebuild(tmp_path: Path) -> None:
    inputs = keras.Input((None, 8), name="values", dtype="bfloat16")
    model = keras.Model(inputs, keras.layers.Dense(3, name="out", dtype="bfloat16")(inputs))
    artifact = export_onnx(model, tmp_path / "m.onnx", input_signature=model_signature(model))
    assert [spec.dtype for spec in (*artifact.inputs, *artifact.outputs)] == ["float32", "float32"]


def test_a_bfloat16_model_in_float16_says_where_the_range_ends_in_its_notes_and_at_a_prompt(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(2, dtype="bfloat16")])
    artifact = export_onnx(model, tmp_path / "m.onnx", half_precision=True)
    (note,) = artifact.notes
    assert {"bfloat16", "float16", "65,504:"} <= set(note.replace(";", "").replace(".", "").split())
    assert note in repr(artifact)
    assert note in repr(read_artifact(artifact.path))


@pytest.mark.parametrize("value", [1e5, -7e4, 3e38])
def test_a_weight_beyond_the_range_of_float16_is_refused_by_its_name(tmp_path: Path, value: float) -> None:
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(2, dtype="mixed_bfloat16", name="far")])
    model.layers[0].kernel.assign(np.full((4, 2), value))
    with pytest.raises(ExportError, match=r"far/kernel.*65,504"):
        export_onnx(model, tmp_path / "m.onnx", half_precision=True)
    assert not list(tmp_path.iterdir())


def with_large_values(largest: float) -> keras.Model:
    """Returns a model whose first layer returns large values, and whose second layer returns small ones."""
    x = keras.Input((4,), name="x")
    large = keras.layers.Dense(3, kernel_initializer=keras.initializers.Constant(largest), name="large")(x)
    return keras.Model(x, keras.layers.Softmax(name="small")(large))


def test_outputs_that_overflow_in_float16_alone_are_refused_with_the_layer(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(UnsupportedError, match="65,504") as caught:
        export_onnx(with_large_values(6e4), path, half_precision=True)
    assert caught.value.layer == "large"
    assert not list(tmp_path.iterdir())
    export_onnx(with_large_values(1e3), path, half_precision=True)
    # The values of the caller are small enough, and larger drawn values do not count.
    export_onnx(with_large_values(6e4), path, half_precision=True, inputs={"x": np.full((2, 4), 0.1, "float32")})


def test_outputs_that_are_infinite_in_float32_too_are_exported_in_float16(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Lambda(lambda x: keras.ops.log(x * 0.0), output_shape=(4,), name="y")(x))
    export_onnx(model, tmp_path / "m.onnx", half_precision=True)
