import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from keras import layers, ops

import keras_pe
from keras_pe.export import ExportError, Format, check_parity, export_litert, read_artifact
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.pipeline.smoke_test import check_artifact
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker

SHAPES = [(1, 1), (3, 7), (2, 13)]  # batch and length, none of them traced


class Function(layers.Layer):
    """Calls a function of its inputs."""

    def __init__(self, function: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


def _apply(layer: Any, length: int | None = None) -> keras.Model:
    x = keras.Input((length, 4), name="x")
    return keras.Model(x, layer(x))


def _encoder() -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 8), name="x")
    y = keras_pe.SinusoidalPositionEncoding()(x)
    y = layers.LayerNormalization()(y + layers.MultiHeadAttention(2, 4)(y, y))
    return keras.Model(x, {"hidden": y, "score": layers.Dense(1, name="score")(y)})


def _convolution() -> keras.Model:
    keras.utils.set_random_seed(0)
    return _apply(layers.Conv1D(5, 3, padding="causal"))


def _in_half_precision() -> keras.Model:
    return _apply(layers.Dense(3, dtype="mixed_bfloat16"))


def check(file: Path, model: keras.Model) -> None:
    with Worker(find_runtimes(["litert"])[0], 60.0) as worker:
        check_artifact(file, worker, KerasReference(model), Format.LITERT)


def _run(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return Interpreter(model_path=str(path)).get_signature_runner()(**inputs)


@pytest.mark.parametrize(("make", "channels"), [(_encoder, 8), (_convolution, 4)])
def test_the_file_agrees_with_keras_at_shapes_never_traced(make: Any, channels: int, artifact: Any) -> None:
    model, file = make(), artifact(make, "litert")
    for batch, length in SHAPES:
        x = np.random.default_rng(length).normal(size=(batch, length, channels)).astype("float32")
        actual, truth = _run(file.path, {"x": x}), model(x)
        truth = truth if isinstance(truth, dict) else {file.outputs[0].name: truth}
        assert set(actual) == set(truth)
        for name, value in truth.items():
            # A few hundred float32 roundings of values of order 1.
            np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=5e-6)


def test_the_artifact_names_what_the_file_takes_and_returns(artifact: Any) -> None:
    file = artifact(_encoder, "litert")
    assert file.format == "litert"
    assert [(spec.name, spec.shape) for spec in file.inputs] == [("x", ("batch", "length", 8))]
    assert [spec.name for spec in file.outputs] == ["hidden", "score"]
    assert file.nbytes == file.path.stat().st_size


def test_a_litert_file_returns_its_stored_metadata(artifact: Any) -> None:
    file = artifact(_in_half_precision, "litert")
    assert len(file.notes) == 2
    assert json.loads(file.metadata["keras_pe.notes"]) == list(file.notes)
    assert replace(read_artifact(file.path), seconds=file.seconds) == file


def test_the_same_model_gives_the_same_file(tmp_path: Path) -> None:
    model = _apply(layers.Dense(2))
    one, other = (export_litert(model, tmp_path / name).path.read_bytes() for name in ("one.tflite", "other.tflite"))
    assert one == other


REFUSED = [
    (Function(lambda x: tf.scan(ops.add, x), name="sums"), r"layer 'sums'.*with keras.ops.scan"),
    (
        Function(ops.erfinv, name="inverse"),
        r"operator 'Erfinv' of layer 'inverse' .* has no LiteRT form. Use functions with an elementary form",
    ),
    (Function(lambda x: ops.median(x, -1), name="middle"), "cast its inputs to float32"),
    (Function(lambda x: ops.view_as_complex(x[..., :2]), name="complex"), "the real and the imaginary part"),
    (Function(lambda x: ops.fft((ops.transpose(x, (0, 2, 1)),) * 2), name="fourier"), "length of a Fourier transform"),
    (Function(lambda x: x + keras.random.normal(ops.shape(x)), name="noise"), r"layer 'noise'.* draws random numbers"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "message"), REFUSED)
def test_operators_that_the_interpreter_lacks_are_refused_with_the_way_around(
    layer: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=message):
        export_litert(_apply(layer), tmp_path / "model.tflite")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_converter_that_ends_its_process_is_a_refusal(tmp_path: Path) -> None:
    def divide_by_zero(x: Any) -> Any:
        if tf.executing_eagerly():
            return x
        # TensorFlow refuses to divide by zero, its converter does it where both are known.
        return x + ops.cast(tf.truncatediv(tf.constant([7]), tf.constant([0])), x.dtype)

    with pytest.raises(UnsupportedError, match=r"the conversion failed: the process ended with signal \d+"):
        export_litert(_apply(Function(divide_by_zero), length=3), tmp_path / "model.tflite")
    assert list(tmp_path.iterdir()) == []
    export_litert(_apply(layers.Dense(2), length=3), tmp_path / "model.tflite")


@pytest.mark.slow
def test_a_causal_mask_of_any_length_arrives(tmp_path: Path) -> None:
    x = keras.Input((None, 4), name="x")
    y = layers.MultiHeadAttention(2, 4, name="y")(x, x, use_causal_mask=True)
    model = keras.Model(x, y)
    artifact = export_litert(model, tmp_path / "model.tflite")
    for batch, length in SHAPES:
        array = np.random.default_rng(length).normal(size=(batch, length, 4)).astype("float32")
        # A hundred float32 roundings of values of order 1.
        np.testing.assert_allclose(_run(artifact.path, {"x": array})["y"], model(array), rtol=1e-5, atol=5e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method")
def test_layers_quantized_to_int8_arrive_with_weights_of_int8(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 64), name="x")
    y = layers.EinsumDense("abc,cd->abd", (None, 64), bias_axes="d")(layers.Dense(512, activation="relu")(x))
    model = keras.Model(x, {"y": y})
    model.quantize("int8")
    artifact = export_litert(model, tmp_path / "model.tflite")
    assert artifact.nbytes < 64 * 512 * 2 + 2**15
    assert sum("int8" in note for note in artifact.notes) == 1
    array = np.random.default_rng(0).normal(size=(3, 5, 64)).astype("float32")
    truth = np.asarray(model(array)["y"])
    # A rounding moves some of what is quantized to the next of 255 integers.
    np.testing.assert_allclose(_run(artifact.path, {"x": array})["y"], truth, rtol=0, atol=abs(truth).max() / 100)


def _recurrences(x: Any) -> list[Any]:
    """Returns what recurrent layers do: forwards and backwards, masked, of several cells, of images, from a state."""
    masked = layers.Masking()(x)
    sequence, *state = layers.GRU(3, return_sequences=True, return_state=True)(x)
    return [
        layers.LSTM(3)(x),
        layers.LSTM(3, return_sequences=True, go_backwards=True)(masked),
        layers.GRU(3, return_sequences=True, zero_output_for_mask=True)(masked),
        layers.Bidirectional(layers.LSTM(2, return_sequences=True))(masked),
        layers.RNN([layers.LSTMCell(3), layers.SimpleRNNCell(2)], return_sequences=True)(masked),
        layers.ConvLSTM2D(2, 2)(layers.Reshape((-1, 2, 2, 1))(x)),
        layers.GRU(3, dtype="mixed_bfloat16")(sequence, initial_state=state),
    ]


@pytest.mark.slow
def test_recurrent_layers_arrive_at_any_batch_and_length(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, {f"y_{number}": y for number, y in enumerate(_recurrences(x))})
    artifact = export_litert(model, tmp_path / "model.tflite")
    for batch, length in SHAPES:
        array = np.random.default_rng(length).normal(size=(batch, length, 4)).astype("float32")
        array[0, length // 2 :] = 0  # the mask's
        actual = _run(artifact.path, {"x": array})
        for name, value in model(array).items():
            # A step rounds some ten times to 2**-24, a gate passes on at most half of that; bfloat16 rounds to 2**-8.
            tolerance = 2e-2 if name == "y_6" else 2e-6
            np.testing.assert_allclose(actual[name], np.asarray(value, "float32"), rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.slow
def test_the_ways_around_are_ways(tmp_path: Path) -> None:
    model = _apply(Function(lambda x: (ops.top_k(x, 1)[1], ops.map(ops.cumsum, x), _sums(x))))
    artifact = export_litert(model, tmp_path / "model.tflite")
    x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    actual = _run(artifact.path, {"x": x})
    for spec, value in zip(artifact.outputs, model(x), strict=True):
        # Some twenty roundings of values of order 1.
        np.testing.assert_allclose(actual[spec.name], value, rtol=1e-5, atol=2e-6)


def _sums(x: Any) -> Any:
    return ops.scan(lambda total, row: (total + row, total), ops.zeros_like(x[0]), x)[1]


@pytest.mark.slow
def test_a_switch_takes_the_branch_of_its_index(tmp_path: Path) -> None:
    def chosen(x: Any) -> Any:
        return ops.switch(ops.cast(x[0, 0, 0], "int32"), [ops.relu, ops.square, ops.negative], x)

    model = _apply(Function(chosen))
    artifact = export_litert(model, tmp_path / "model.tflite")
    for index in (0, 1, 2, 9):
        x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
        x[0, 0, 0] = index
        (actual,) = _run(artifact.path, {"x": x}).values()
        np.testing.assert_array_equal(actual, model(x))


@pytest.mark.slow
def test_texts_are_those_of_keras(tmp_path: Path) -> None:
    words = layers.StringLookup(vocabulary=["a", "é"], invert=True)
    number = keras.Input((3,), dtype="int32")
    model = keras.Model(number, words(number))
    assert check_parity(model, export_litert(model, tmp_path / "m.tflite"), runtimes="litert").passed


@pytest.mark.slow
def test_a_slice_up_to_place_0_has_nothing(tmp_path: Path) -> None:
    def rotate_empty_pairs(x: Any) -> Any:
        first, later = x[..., :0], x[..., 0:]
        return ops.concatenate([ops.reshape(ops.stack([first, -first], -2), (*ops.shape(x)[:2], 0)), later], -1)

    model = _apply(Function(rotate_empty_pairs, name="y"))
    artifact = export_litert(model, tmp_path / "model.tflite")
    x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    (actual,) = _run(artifact.path, {"x": x}).values()
    np.testing.assert_array_equal(actual, x)


@pytest.mark.slow
def test_a_slice_adds_axes_wherever_they_are(tmp_path: Path) -> None:
    def slice_axes(x: Any) -> Any:
        several = x[:, None, ..., None], x[:, 1:, None, 0], x[..., None, :2], x[:, -1, None], x[:, ::2, None]
        return (x[..., None], x[None], x[..., 0][..., None], *several)

    model = _apply(Function(slice_axes))
    artifact = export_litert(model, tmp_path / "model.tflite")
    x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    actual = _run(artifact.path, {"x": x})
    for spec, value in zip(artifact.outputs, model(x), strict=True):
        np.testing.assert_array_equal(actual[spec.name], value, strict=True)


@pytest.mark.slow
def test_forms_that_the_interpreter_lacks_are_written_in_others(tmp_path: Path) -> None:
    def forms(x: Any) -> Any:
        rolled = ops.roll(x, (-1, 5), axis=(1, 2))
        return (
            rolled,
            ops.roll(x, 3),
            ops.argmax(x, 1),
            ops.argmin(x, -1),
            ops.signbit(x),
            tf.strided_slice(x, [0], [1]),
        )

    model = _apply(Function(forms))
    artifact = export_litert(model, tmp_path / "model.tflite")
    for batch, length in SHAPES:
        x = np.random.default_rng(0).integers(-2, 3, (batch, length, 4)).astype("float32")
        x[:, :, 1] = -0.0
        actual = _run(artifact.path, {"x": x})
        for spec, value in zip(artifact.outputs, model(x), strict=True):
            np.testing.assert_array_equal(actual[spec.name], value)


def _image_layers(format: str) -> keras.Model:
    """Returns a model of images of any size, of a layer each."""
    keras.utils.set_random_seed(0)
    x = keras.Input((None, None, 3) if format == "channels_last" else (3, None, None), name="x")
    gaps: Any = {"dilation_rate": 2, "depth_multiplier": 2, "data_format": format}
    outputs = {
        f"{kind}_{padding}_{strides}": layer(strides=strides, padding=padding, **gaps)(x)
        for padding in ("same", "valid")
        for strides in (1, 2)
        for kind, layer in (
            ("depthwise", lambda **options: layers.DepthwiseConv2D(3, **options)),
            ("separable", lambda **options: layers.SeparableConv2D(4, (3, 2), **options)),
        )
    }
    resized = [(name, antialias) for name in ("bicubic", "area", "lanczos3") for antialias in (False, True)]
    for name, antialias in resized:
        options = {"interpolation": name, "antialias": antialias, "data_format": format}
        outputs[f"{name}_{antialias}"] = Function(lambda x, options=options: ops.image.resize(x, (7, 12), **options))(x)
    counts = Function(lambda x: ops.cast(100 * x, "int32"))(x)
    outputs["pooled"] = layers.MaxPooling2D(2, data_format=format, dtype="int32")(counts)
    outputs["upsampled"] = layers.UpSampling2D(2, data_format=format, interpolation="bicubic")(x)
    return keras.Model(x, outputs)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["channels_last", "channels_first"])
def test_images_of_any_size_go_through_every_layer_of_images(format: str, tmp_path: Path) -> None:
    model = _image_layers(format)
    artifact = export_litert(model, tmp_path / "model.tflite")
    for height, width in ((9, 12), (14, 7)):
        x = np.random.default_rng(0).uniform(size=(2, height, width, 3)).astype("float32")
        x = x if format == "channels_last" else x.transpose(0, 3, 1, 2)
        actual = _run(artifact.path, {"x": x})
        for name, value in model(x).items():
            # Sums of up to eighteen products, or of as many pixels under weights, of values of order 1.
            tolerance = 0 if name == "pooled" else 4e-6
            np.testing.assert_allclose(actual[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.slow
def test_complex_tensors_inside_a_model_arrive(tmp_path: Path) -> None:
    def spectrum(x: Any) -> list[Any]:
        z = ops.view_as_complex(ops.reshape(x, (-1, ops.shape(x)[1], 2, 2)))
        turned = z * ops.polar(ops.ones((2,)), ops.arange(2, dtype="float32"))
        low = tf.signal.rfft(ops.concatenate([x, x[..., :1]], -1), [5])[..., :2]
        return [
            ops.abs(z),
            ops.angle(z[..., 1:]),
            ops.real(ops.conj(turned)),
            ops.imag(turned / z),
            ops.reshape(ops.view_as_real(turned), ops.shape(x)),
            ops.abs(low),
            *ops.fft((x, ops.flip(x, -1))),
            ops.real(tf.signal.ifft(tf.cast(x, "complex64"))),
        ]

    model = _apply(Function(spectrum))
    artifact = export_litert(model, tmp_path / "model.tflite")
    report = check_parity(model, artifact)
    assert report.passed, str(report)
    for batch, length in SHAPES:
        x = np.random.default_rng(length).normal(size=(batch, length, 4)).astype("float32")
        actual = _run(artifact.path, {"x": x})
        for spec, value in zip(artifact.outputs, model(x), strict=True):
            # A few products and sums; a quotient of small numbers is off by as much of its own size.
            np.testing.assert_allclose(actual[spec.name], value, rtol=1e-5, atol=4e-6)


@pytest.mark.slow
def test_a_softplus_of_large_numbers_does_not_overflow(tmp_path: Path) -> None:
    model = _apply(Function(lambda x: (ops.softplus(x), ops.log_sigmoid(x), keras.activations.mish(x))))
    artifact = export_litert(model, tmp_path / "model.tflite")
    x = np.array([-1e5, -89, -88, 0, 1, 88, 89, 1e5], "float32").reshape(1, 2, 4)
    actual = _run(artifact.path, {"x": x})
    for spec, value in zip(artifact.outputs, model(x), strict=True):
        # A rounding or two of the larger of the value and 1, whose logarithm is taken: 2**-24 each.
        np.testing.assert_allclose(actual[spec.name], value, rtol=4 * 2**-24, atol=4 * 2**-24)


@pytest.mark.slow
def test_infinite_numbers_are_told_from_others(tmp_path: Path) -> None:
    told = (ops.isinf, ops.isposinf, ops.isneginf, ops.isfinite, ops.isnan, ops.nan_to_num)
    model = _apply(Function(lambda x: (*(each(x) for each in told), x == np.inf, x != -np.inf)))
    artifact = export_litert(model, tmp_path / "model.tflite")
    x = np.array([1, np.inf, -np.inf, np.nan, 0, -3e38, 3e38, 1e-38], "float32").reshape(1, 2, 4)
    actual = _run(artifact.path, {"x": x})
    for spec, value in zip(artifact.outputs, model(x), strict=True):
        np.testing.assert_array_equal(actual[spec.name], value)


@pytest.mark.slow
def test_a_contraction_arrives_whichever_factor_has_the_batch(tmp_path: Path) -> None:
    matrix = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")

    def contract_axes(x: Any) -> Any:
        return [
            *(ops.einsum(equation, matrix, x) for equation in ("ij,bcj->bic", "ij,bcj->cbi", "ij,blj->blij")),
            ops.einsum("i,bjc->bicj", matrix[:, 0], x),
            *(ops.einsum(equation, x, x) for equation in ("bjc,bjc->bj", "bjc,bic->bij")),
            ops.einsum("ij,bjc->bic", matrix, ops.transpose(x, (0, 2, 1))),
        ]

    for length in (5, None):
        model = _apply(Function(contract_axes), length)
        artifact = export_litert(model, tmp_path / f"{length}.tflite")
        x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
        actual = _run(artifact.path, {"x": x})
        for spec, value in zip(artifact.outputs, model(x), strict=True):
            # Sums of up to five products.
            np.testing.assert_allclose(actual[spec.name], value, rtol=1e-5, atol=2e-6)


@pytest.mark.slow
def test_random_numbers_that_no_output_depends_on_are_not_refused(tmp_path: Path) -> None:
    x = keras.Input((6, 6, 3), name="x")
    model = keras.Model(x, layers.RandomGrayscale()(x))
    artifact = export_litert(model, tmp_path / "model.tflite")
    images = np.random.default_rng(0).uniform(size=(3, 6, 6, 3)).astype("float32")
    (actual,) = _run(artifact.path, {"x": images}).values()
    np.testing.assert_array_equal(actual, model(images, training=False))


def test_half_precision_is_exported_as_a_float32_rebuild_that_says_so(artifact: Any) -> None:
    file = artifact(_in_half_precision, "litert")
    assert file.outputs[0].dtype == "float32"
    assert "float32" in " ".join(file.notes)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_inputs_of_16_bits_are_fed_as_the_file_takes_them(tmp_path: Path, dtype: str) -> None:
    x = keras.Input((4,), dtype=dtype, name="x")
    computed = keras.Model(x, layers.Dense(3, dtype=dtype)(x))
    taken = keras.Model(x, layers.Dense(3)(ops.cast(x, "float32")))
    for model, expected in ((computed, "float32"), (taken, dtype)):
        file = export_litert(model, tmp_path / "model.tflite")
        assert file.inputs[0].dtype == expected
        report = check_parity(model, file)
        assert report.passed, str(report)


def test_a_file_that_returns_other_numbers_is_refused(tmp_path: Path) -> None:
    artifact = export_litert(_apply(Function(ops.sin, name="y")), tmp_path / "model.tflite")
    model = _apply(Function(ops.cos, name="y"))
    with pytest.raises(ExportError, match=r"output 'y' differs from Keras' by [12]\.\d"):
        check(artifact.path, model)


def test_a_file_that_the_interpreter_cannot_open_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(b"\0\0\0\0TFL3 and no more")
    model = _apply(Function(ops.cos, name="y"))
    with pytest.raises(ExportError, match="the runtime does not open it"):
        check(file, model)


def test_the_stages_of_an_export_are_told(tmp_path: Path) -> None:
    stages: list[str] = []
    export_litert(_apply(Function(ops.cos)), tmp_path / "model.tflite", progress=stages.append)
    assert stages == ["signature", "trace", "convert", "write", "run", "publish"]


@pytest.mark.slow
def test_an_existing_file_survives_a_refused_export(tmp_path: Path) -> None:
    path = export_litert(_apply(layers.Dense(2)), tmp_path / "model.tflite").path
    before = path.read_bytes()
    with pytest.raises(ExportError):
        export_litert(_apply(Function(ops.erfinv)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_layer_is_one_operator_where_litert_has_one(tmp_path: Path) -> None:
    x = keras.Input((8,), name="x")
    dense = keras.Model(x, layers.Dense(4)(layers.Dense(16, activation="relu")(x)))
    y = keras.Input((5, 8), name="y")
    attention = keras.Model(y, layers.MultiHeadAttention(2, 4)(y, y))
    found = []
    for number, model in enumerate((dense, attention)):
        file = export_litert(model, tmp_path / f"{number}.tflite").path
        found.append(Counter(each["op_name"] for each in Interpreter(model_path=str(file))._get_ops_details()))
    assert found[0] == {"FULLY_CONNECTED": 2}  # the activation is a part of it
    products = {name: count for name, count in found[1].items() if name not in ("RESHAPE", "TRANSPOSE")}
    assert products == {"FULLY_CONNECTED": 4, "BATCH_MATMUL": 2, "MUL": 1, "SOFTMAX": 1}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_a_recurrence_writes_its_steps_where_they_lie(policy: str, tmp_path: Path) -> None:
    model = _apply(layers.Bidirectional(layers.LSTM(3, return_sequences=True, dtype=policy), dtype=policy))
    file = export_litert(model, tmp_path / "model.tflite").path
    content = schema.ModelT.InitFromPackedBuf(file.read_bytes(), 0)
    codes = [code.builtinCode for code in content.operatorCodes]
    kinds = Counter(codes[each.opcodeIndex] for part in content.subgraphs for each in part.operators)
    assert kinds[schema.BuiltinOperator.WHILE] == kinds[schema.BuiltinOperator.DYNAMIC_UPDATE_SLICE] == 2
    assert kinds[schema.BuiltinOperator.SCATTER_ND] == 0


def _squares(x: Any) -> Any:
    return ops.sum(ops.square(x), axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / ops.sqrt(_squares(x) + 1e-4),
        lambda x: x * (1 / ops.sqrt(1e-4 + _squares(x))),
        lambda x: x * ops.rsqrt(ops.maximum(_squares(x), 1e-4)),
        lambda x: x / ops.power(_squares(x) + 1e-4, 0.5),
        lambda x: x / ops.sqrt(_squares(x)),
        lambda x: tf.math.l2_normalize(x, -1),
    ],
    ids=["added", "reciprocal", "limit", "power", "none", "limit of LiteRT"],
)
def test_small_vectors_are_divided_by_their_length_with_its_epsilon(function: Any, tmp_path: Path) -> None:
    model = _apply(Function(function), 3)
    path = export_litert(model, tmp_path / "model.tflite").path
    numbers = np.float32([[[1e-3, -2e-3, 5e-4, 0], [1e-7, 2e-7, -2e-7, 1e-7], [1, 2, -3, 4]]])
    (actual,) = Interpreter(str(path)).get_signature_runner()(x=numbers).values()
    # A dozen float32 roundings of quotients of at most 1.
    np.testing.assert_allclose(actual, np.asarray(model(numbers)), rtol=0, atol=12 * 2.0**-24)
