"""Other tools take the files: quantizers, optimizers, converters of versions, and another engine."""

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

from keras_pe.export import export_onnx
from tests.export.onnx.exported import run_file
from tests.export.test_zoo import AGREEING, ZOO

# keras-hub's T5 warns of a mask that its own attention does not pass on.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:Layer '\w+' \(of type T5MultiHeadAttention\) was passed an input with a mask",
    r"ignore:Layer 'transformer_\w+_layer_0' looks like it has unbuilt state",
)

# A network of images, an encoder and a tagger; the other models of the zoo are exhaustive.
SLOW = ("conv2d", "encoder", "bidirectional")
# Files that a tool refuses or changes by its own fault: the file, the tool and its message.
FAULTS_OF_TOOLS = {
    ("mask_zero", "openvino"): "takes no Loop whose body reads what is around it",
    ("fourier", "openvino"): "has no Fourier transform of float64",
    ("fnet encoder", "openvino"): "has no Fourier transform of float64",
    ("encoding of positions", "openvino"): "returns other numbers at given positions",
    ("speech", "_slim"): "onnxslim 0.1.98 writes a Reshape that fails when it is run",
}


def _quantize(source, target):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(source, target)


def _raise_opset(source, target):
    onnx.save(onnx.version_converter.convert_version(onnx.load(source), 21), target)


def _optimized_offline(source, target):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3  # silences the warning that the file suits this machine alone
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _simplify(source, target):
    import onnxsim

    simplified, is_same = onnxsim.simplify(onnx.load(source))
    assert is_same  # by its own comparison
    onnx.save(simplified, target)


def _slim(source, target):
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def _optimized_by_onnxscript(source, target):
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)


def _run_openvino(path, arrays):
    import openvino

    # By itself it computes in bfloat16 where the processor can.
    precise = {"INFERENCE_PRECISION_HINT": "f32"}
    found = openvino.compile_model(openvino.convert_model(path), "CPU", precise)(arrays)
    return list(found.values())


def _assert_same(actual, expected, roundings):
    """Each of some hundred sums is made in another order: sqrt(n) roundings of 6e-8 of the largest value."""
    for found, array in zip(actual, expected, strict=True):
        largest = np.abs(array.astype(np.float64)).max(initial=0.0)
        np.testing.assert_allclose(found, array, atol=roundings * 6e-8 * max(1.0, largest), rtol=0)


def _skip_fault(name, tool):
    if (name, tool) in FAULTS_OF_TOOLS:
        pytest.skip(FAULTS_OF_TOOLS[name, tool])


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else pytest.mark.exhaustive) for name in AGREEING
    ],
)
def exported(request, tmp_path_factory):
    """The name of a model, its file, values for it, and what the file returns for them."""
    keras.utils.set_random_seed(0)
    entry = ZOO[request.param]
    folder = tmp_path_factory.mktemp("file")
    artifact = export_onnx(entry.make(), folder / "model.onnx", input_signature=entry.signature)
    arrays = entry.inputs(artifact.inputs, *entry.sizes[0])
    return request.param, artifact.path, arrays, run_file(artifact.path, **arrays)


@pytest.mark.slow_rows(5)
@pytest.mark.parametrize("change", [_raise_opset, _optimized_offline, _simplify, _slim, _optimized_by_onnxscript])
def test_a_file_that_another_tool_has_written_again_returns_the_same_numbers(exported, change, tmp_path):
    name, path, arrays, expected = exported
    _skip_fault(name, change.__name__)
    change(path, tmp_path / "changed.onnx")
    _assert_same(run_file(tmp_path / "changed.onnx", **arrays), expected, 4 * 16)


def test_every_kernel_is_found_by_the_quantizer(exported, tmp_path):
    _, path, arrays, expected = exported
    _quantize(path, tmp_path / "int8.onnx")
    graph = onnx.load(tmp_path / "int8.onnx").graph
    computed = {name for node in graph.node for name in node.output} | set(arrays)
    kernels = [node for node in graph.node if node.op_type in ("Conv", "MatMul") and node.input[1] not in computed]
    assert not [node.name for node in kernels]
    assert [array.shape for array in run_file(tmp_path / "int8.onnx", **arrays)] == [array.shape for array in expected]


def test_openvino_converts_and_agrees(exported):
    name, path, arrays, expected = exported
    _skip_fault(name, "openvino")
    # OpenVINO may approximate exp and tanh to a few units in the last place.
    _assert_same(_run_openvino(path, arrays), expected, 4 * 64)
