"""Other tools take the files: quantizers, optimizers, converters of versions, and another engine."""

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

from keras_pe import SinusoidalPositionEncoding
from keras_pe.export import export_onnx

pytestmark = pytest.mark.slow

L = keras.layers


def _classifier():
    x = inputs = keras.Input((24, 24, 3))
    for width in (8, 16):
        x = L.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = L.ReLU()(L.BatchNormalization()(x))
        x = L.DepthwiseConv2D(3, strides=2, padding="same")(x)
    return keras.Model(inputs, L.Dense(5, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def _encoder():
    inputs = keras.Input((None,), dtype="int32")
    # With a table: OpenVINO 2026.4.1 returns garbage for attention that follows an If (docs/upstream.md).
    x = SinusoidalPositionEncoding(max_length=64)(L.Embedding(50, 16)(inputs))
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 8)(x, x))
    return keras.Model(inputs, L.LayerNormalization()(x + L.Dense(16, activation="gelu")(x)))


def _tagger():
    inputs = keras.Input((None, 6))
    x = L.Bidirectional(L.LSTM(8, return_sequences=True))(inputs)
    return keras.Model(inputs, L.Dense(4)(L.Conv1D(8, 3, padding="causal")(x)))


def _quantized(source, target):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(source, target)


def _raised(source, target):
    onnx.save(onnx.version_converter.convert_version(onnx.load(source), 21), target)


def _optimized_offline(source, target):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3  # that the file is for this machine alone
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _simplified(source, target):
    import onnxsim

    simplified, is_same = onnxsim.simplify(onnx.load(source))
    assert is_same  # by its own comparison
    onnx.save(simplified, target)


def _slimmed(source, target):
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def _optimized_by_onnxscript(source, target):
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)


def _run(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def _run_openvino(path, x):
    import openvino

    # By itself it computes in bfloat16 where the processor can.
    precise = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.compile_model(openvino.convert_model(path), "CPU", precise)(x)[0]


@pytest.fixture(scope="module", params=[_classifier, _encoder, _tagger])
def exported(request, tmp_path_factory):
    """A file, values for it, and what it returns for them."""
    keras.utils.set_random_seed(0)
    model = request.param()
    path = export_onnx(model, tmp_path_factory.mktemp("file") / "model.onnx").path
    rng = np.random.default_rng(0)
    shape = [2 if size is None else size for size in model.inputs[0].shape]
    shape = [7 if size == 2 and axis else size for axis, size in enumerate(shape)]
    is_text = model.inputs[0].dtype == "int32"
    x = rng.integers(0, 50, shape).astype("int32") if is_text else rng.normal(size=shape).astype("float32")
    return path, x, _run(path, x)


@pytest.mark.parametrize("change", [_raised, _optimized_offline, _simplified, _slimmed, _optimized_by_onnxscript])
def test_a_file_that_another_tool_has_written_again_returns_the_same_numbers(exported, change, tmp_path):
    path, x, expected = exported
    change(path, tmp_path / "changed.onnx")
    # Another order of a few hundred sums: sqrt(n) roundings of 6e-8 each, and numbers below 4.
    np.testing.assert_allclose(_run(tmp_path / "changed.onnx", x), expected, atol=4 * 16 * 6e-8 * 4, rtol=0)


def test_every_kernel_is_found_by_the_quantizer(exported, tmp_path):
    path, x, expected = exported
    _quantized(path, tmp_path / "int8.onnx")
    graph = onnx.load(tmp_path / "int8.onnx").graph
    computed = {name for node in graph.node for name in node.output}
    kernels = [node for node in graph.node if node.op_type in ("Conv", "MatMul") and node.input[1] not in computed]
    assert not [node.name for node in kernels]
    assert _run(tmp_path / "int8.onnx", x).shape == expected.shape


def test_openvino_converts_and_agrees(exported):
    path, x, expected = exported
    # OpenVINO may multiply in another order and approximate exp and tanh to a few units in the last place.
    np.testing.assert_allclose(_run_openvino(path, x), expected, atol=4 * 64 * 6e-8 * 4, rtol=0)
