"""Planted faults, one each: every one is found, its cause named where it has a name, its layer where it has one."""

from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from edited_files import EDITED
from keras import ops
from onnx import TensorProto, helper

from keras_pe.export import Cause, check_parity, export_onnx
from keras_pe.export.runtimes.runtime import RuntimeSpec, as_dtype
from tests.export.parity.diagnosis.faults import CHANNELS, Surgery, build, half, minus_batch_mean, noise, unary
from tests.export.parity.diagnosis.planted import AMPLE


@dataclass(frozen=True)
class Fault:
    """A fault and what the report must say of it."""

    name: str
    plant: object
    cause: str
    layer: str | None = None


def _other_model(**changes):
    return lambda source, path: export_onnx(build(**changes), path).path


def _surgery(change):
    def plant(source: Path, path: Path) -> Path:
        surgery = Surgery(source)
        change(surgery)
        return surgery.save(path)

    return plant


def _clamp_positions(layer, x):
    positions = ops.cumsum(ops.ones_like(x[:, :, 0], dtype="int32"), axis=1) - 1
    return layer(x, positions=ops.minimum(positions, 39))


def _frozen_inside(surgery):
    surgery.constant("frozen", np.zeros((1, 7, CHANNELS), np.float32))
    surgery.inside("mix", lambda old, new: [helper.make_node("Add", [old, "frozen"], [new])])


def _batch_mean(surgery):
    surgery.constant("batch_axis", np.array([0]))
    surgery.inside("norm", minus_batch_mean)


def _extra_output(surgery):
    surgery.graph.output.append(
        helper.make_tensor_value_info(surgery.graph.node[-1].output[0], TensorProto.FLOAT, None)
    )
    inner = next(n.output[0] for n in surgery.graph.node if n.op_type == "MatMul")
    surgery.graph.output[-1].name = inner


def _missing_output(surgery):
    del surgery.graph.output[1]


def _renamed_output(surgery):
    surgery.rename_outputs({"state": "result"})
    surgery.graph.output[1].name = "result"


def _other_dtype(surgery):
    surgery.at_output("state", unary("Cast", to=TensorProto.DOUBLE))
    surgery.graph.output[1].type.tensor_type.elem_type = TensorProto.DOUBLE


def _turned_output(surgery):
    surgery.at_output("state", unary("Transpose", perm=[1, 0, 2]))
    surgery.graph.output[1].ClearField("type")


def _foreign_operator(surgery):
    surgery.inside("mix", unary("Erfc"))


def _one_nan(kernel):
    return np.where(np.eye(CHANNELS) * (np.arange(CHANNELS) == 3), np.nan, kernel)


def _one_row_off(table):
    return table + (np.arange(len(table)) == 7)[:, None] * 1e-3


def _slightly_off(kernel):
    return kernel + 1e-3 * np.eye(CHANNELS)


def _no_norm(surgery):
    surgery.instead("norm")


def _weight(name, change):
    return _surgery(lambda surgery: surgery.weight(name, change))


def _outputs(names):
    return _surgery(lambda surgery: surgery.rename_outputs(names))


def _fixed_signature(source, path):
    return export_onnx(build(), path, input_signature=[keras.InputSpec(shape=(None, 13), dtype="int32")]).path


ONNX_FAULTS = [
    Fault("a weight off by 1e-3", _weight("mix/kernel", _slightly_off), "changed values", "mix"),
    Fault("one row of an embedding off", _weight("embed/embeddings", _one_row_off), "changed values", "embed"),
    Fault("a bias off", _weight("scores/bias", lambda w: w + np.eye(5)[1]), "changed values", "scores"),
    Fault("a flipped sign", _weight("scores/kernel", np.negative), "flipped sign", "scores"),
    Fault("a transposed weight", _weight("mix/kernel", np.transpose), "transposed axes", "mix"),
    Fault("a NaN in a weight", _weight("mix/kernel", _one_nan), "NaN or infinity", "mix"),
    Fault("another epsilon", _other_model(epsilon=1e-1), "other epsilon", "norm"),
    Fault("another activation", _other_model(activation="tanh"), "other activation", "mix"),
    Fault("swapped outputs", _outputs({"scores": "state", "state": "scores"}), "swapped outputs"),
    Fault("start_index + 1", _other_model(start_index=1), "start index off", "encode"),
    Fault("start_index - 2", _other_model(start_index=-2), "start index off", "encode"),
    Fault("the other layout", _other_model(layout="interleaved"), "wrong layout", "encode"),
    Fault("the other endpoint", _other_model(endpoint=False), "other convention", "encode"),
    Fault("the paper's convention", _other_model(endpoint=False, layout="interleaved"), "other convention", "encode"),
    Fault("a length frozen in the signature", _fixed_signature, "frozen length"),
    Fault("a length frozen inside", _surgery(_frozen_inside), "frozen length"),
    Fault("a table clamped", _other_model(encode=_clamp_positions), "clamped table", "encode"),
    Fault("an operator in float16", _surgery(lambda s: s.inside("mix", half)), "half precision inside", "mix"),
    Fault("a dropped mask", _other_model(mask_zero=False), "dropped mask", "attend"),
    Fault("a dropped normalization", _surgery(_no_norm), "layer left out", "norm"),
    Fault("an extra output", _surgery(_extra_output), "extra output"),
    Fault("a missing output", _surgery(_missing_output), "missing output"),
    Fault("a renamed output", _surgery(_renamed_output), "renamed output"),
    Fault("another dtype", _surgery(_other_dtype), "other dtype"),
    Fault("an output with its axes turned", _surgery(_turned_output), "transposed axes"),
    Fault("a normalization over the batch", _surgery(_batch_mean), "dependence on the batch", "norm"),
    Fault("a random operator", _surgery(lambda s: s.inside("mix", noise)), "non-determinism", "mix"),
    Fault("an operator that no runtime has", _surgery(_foreign_operator), "not loaded"),
]  # fmt: skip


def _short(dtype):
    return lambda w: w.astype(as_dtype(dtype) if isinstance(dtype, str) else dtype).astype(np.float32)


def _int8(w):
    step = np.abs(w).max() / 127
    return np.rint(w / step) * step


def _swap_gates(w):
    return w[:, np.r_[CHANNELS // 2 : CHANNELS, : CHANNELS // 2]]


def _one_element(w):
    return w + 0.3 * (np.arange(w.size).reshape(w.shape) == 5)


def _other_weight(surgery):
    (other,) = [t for t in surgery.graph.initializer if t.name == "attend/query/kernel"]
    surgery.weight("attend/key/kernel", lambda w: onnx.numpy_helper.to_array(other))


ONNX_FAULTS += [
    Fault("a kernel in float16", _weight("mix/kernel", _short(np.float16)), "rounded values", "mix"),
    Fault("a kernel in bfloat16", _weight("mix/kernel", _short("bfloat16")), "rounded values", "mix"),
    Fault("a kernel in int8", _weight("mix/kernel", _int8), "quantized (int8)", "mix"),
    Fault("a table in int8", _weight("embed/embeddings", _int8), "quantized (int8)", "embed"),
    Fault("a head in float16", _weight("scores/kernel", _short(np.float16)), "rounded values", "scores"),
    Fault("a scaled kernel", _weight("mix/kernel", lambda w: 1.01 * w), "scaled values", "mix"),
    Fault("a scaled table", _weight("embed/embeddings", lambda w: 4.0 * w), "scaled values", "embed"),
    Fault("a scaled gamma", _weight("norm/gamma", lambda w: 1.1 * w), "scaled values", "norm"),
    Fault("a scaled value kernel", _weight("attend/value/kernel", lambda w: 0.9 * w), "scaled values", "attend/value"),
    Fault("a table off by a row", _weight("embed/embeddings", lambda w: np.roll(w, 1, 0)), "shifted rows", "embed"),
    Fault("a table off by two", _weight("embed/embeddings", lambda w: np.roll(w, -2, 0)), "shifted rows", "embed"),
    Fault("a kernel off by a column", _weight("mix/kernel", lambda w: np.roll(w, 1, 1)), "shifted rows", "mix"),
    Fault("one element", _weight("mix/kernel", _one_element), "changed values", "mix"),
    Fault("one element of a table", _weight("embed/embeddings", _one_element), "changed values", "embed"),
    Fault("halves swapped", _weight("mix/kernel", _swap_gates), "reordered values", "mix"),
    Fault("a reversed kernel", _weight("mix/kernel", lambda w: w[::-1]), "reversed values", "mix"),
    Fault("a zeroed kernel", _weight("state/kernel", np.zeros_like), "missing values", "state"),
    Fault("a zeroed value kernel", _weight("attend/value/kernel", np.zeros_like), "missing values", "attend/value"),
    Fault("an offset kernel", _weight("mix/kernel", lambda w: w + 0.1), "offset values", "mix"),
    Fault("a bias that should be zero", _weight("mix/bias", lambda w: w + 0.1), "offset values", "mix"),
    Fault("another layer's kernel", _surgery(_other_weight), "another weight", "attend/key"),
    Fault("a flipped table", _weight("embed/embeddings", np.negative), "flipped sign", "embed"),
    Fault("a flipped query", _weight("attend/query/kernel", np.negative), "flipped sign", "attend/query"),
    Fault("an infinity in a table", _weight("embed/embeddings", lambda w: np.where(w == w[3, 3], np.inf, w)),
          "NaN or infinity", "embed"),
    Fault("a relu for a silu", _other_model(activation="relu"), "other activation", "mix"),
    Fault("a gelu for a silu", _other_model(activation="gelu"), "other activation", "mix"),
    Fault("no activation", _other_model(activation="linear"), "other activation", "mix"),
    Fault("a smaller epsilon", _other_model(epsilon=1e-6), "other epsilon", "norm"),
    Fault("start_index + 5", _other_model(start_index=5), "start index off", "encode"),
]  # fmt: skip

RUNTIME_FAULTS = [
    Fault("a runtime that crashes", "Crashing", "crash"),
    Fault("a runtime that hangs", "Hanging", "hang"),
    Fault("a runtime that returns the input", "Echoing", "input returned"),
    Fault("a runtime that returns nothing", "Silent", "missing output"),
]


@pytest.fixture(scope="module")
def model():
    return build()


@pytest.fixture(scope="module")
def sound(model, tmp_path_factory):
    return export_onnx(model, tmp_path_factory.mktemp("sound") / "small.onnx").path


@pytest.mark.slow
def test_without_a_fault_the_model_passes(model, sound):
    report = check_parity(model, sound)
    assert report.passed, str(report)


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize("fault", ONNX_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_in_the_file_is_found_and_named(model, sound, fault, tmp_path):
    artifact = fault.plant(sound, tmp_path / "faulty.onnx")
    report = check_parity(model, artifact, runtimes=["onnxruntime[all]"], diagnosis_seconds=AMPLE)
    assert not report.passed
    assert fault.cause in [finding.cause for finding in report.findings], str(report)
    assert len({finding.cause for finding in report.findings}) == 1, str(report)
    if fault.layer is not None:
        assert {finding.layer for finding in report.findings} == {fault.layer}, str(report)
        assert report.results[0].first_layer_that_differs == fault.layer, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("fault", RUNTIME_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_runtime_is_found_and_named(model, sound, fault):
    spec = RuntimeSpec("faulty", "onnx", f"tests.export.parity.faulty_runtimes:{fault.plant}", "numpy", "-")
    report = check_parity(model, sound, runtimes=[spec, "onnxruntime[all]"], timeout=5, diagnosis_seconds=AMPLE)
    assert not report.passed
    assert fault.cause in [finding.cause for finding in report.results[0].findings], str(report)
    assert report.results[1].passed, "the check goes on with the next runtime"


@pytest.mark.slow
def test_a_frozen_state_is_found_and_named(tmp_path):
    path = tmp_path / "frozen.onnx"
    model = EDITED[Cause.FROZEN_STATE].make(path)
    report = check_parity(model, path, runtimes=["onnxruntime[all]"])
    assert "frozen state" in [finding.cause for finding in report.findings], str(report)
    assert float(model.weights[0].numpy()) == 0, "the check leaves the model's state as it was"


def test_the_catalogue_is_as_long_as_promised():
    assert len(ONNX_FAULTS) + len(RUNTIME_FAULTS) >= 60
    assert sum(fault.cause == "unknown" for fault in ONNX_FAULTS) <= len(ONNX_FAULTS) / 20
