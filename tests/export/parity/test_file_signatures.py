"""A check runs each signature of a LiteRT file that has a signature for each set of sizes."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_pe.export import check_parity, export_litert, replay_bundle
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_file import SIGNATURE, pack_model
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.parity.bundle import write_bundle
from keras_pe.export.parity.file_signatures import FileSignatures, Part
from keras_pe.export.results import RunStatus, RuntimeResult

FILE = Path("model.tflite")
PARTS = {Path(key): Part(FILE, key, {"x": (1, size)}) for key, size in (("short", 8), ("long", 16))}


@pytest.mark.parametrize(
    ("path", "sizes"), [(Path("short"), [8, 7]), (Path("long"), [16, 16]), (Path("other.onnx"), [8, 16, 7, 16])]
)
def test_a_signature_gets_the_cases_of_its_sizes_and_the_first_one_those_of_no_signature(
    path: Path, sizes: list[int]
) -> None:
    cases = [Case(str(number), {"x": np.zeros((1, size))}, "") for number, size in enumerate((8, 16, 7, 16))]
    found = FileSignatures(PARTS).select(cases, [path])
    assert [case.inputs["x"].shape[1] for case in found] == sizes


def test_a_result_names_the_file_and_the_signature() -> None:
    own = RuntimeResult("long", Format.LITERT, "litert", passed=True, status=RunStatus.COMPARED)
    found = FileSignatures(PARTS).restore(own)
    assert (found.artifact, found.signature, found.subject) == ("model.tflite", "long", "model.tflite#long")


def _edit(file: Path, key: str, fault: Any) -> None:
    """Changes the signature and the graph of a key in a LiteRT file."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(file.read_bytes(), 0)
    keys = [each.signatureKey.decode() for each in model.signatureDefs]
    signature = model.signatureDefs[keys.index(key)]
    fault(model, signature, model.subgraphs[signature.subgraphIndex])
    file.write_bytes(pack_model(model))


def _halve_weights(model: Any, _: Any, graph: Any) -> None:
    def length(tensor: Any) -> int:
        data = model.buffers[tensor.buffer].data
        return 0 if data is None else len(data)

    tensor = max(graph.tensors, key=length)
    buffer = copy.copy(model.buffers[tensor.buffer])
    buffer.data = np.frombuffer((np.frombuffer(bytes(buffer.data), np.float32) / 2).tobytes(), np.uint8)
    tensor.buffer = len(model.buffers)
    model.buffers.append(buffer)


def _lead_to_second(_: Any, signature: Any, __: Any) -> None:
    signature.subgraphIndex = 1


@pytest.mark.slow
def test_a_fault_in_one_signature_is_found_there_and_replayed_there(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, layers.Conv1D(5, 3, padding="same", name="y")(x))
    file, sizes = tmp_path / "model.tflite", [{"length": 8}, {"length": 16}]
    export_litert(model, file, target="gpu", sizes=sizes)
    sound = file.read_bytes()
    report = check_parity(model, file, runtimes=["litert", "litert[builtin]"])
    assert [(each.signature, each.passed) for each in report.results] == [
        *[("length_8", True)] * 2,
        *[("length_16", True)] * 2,
    ]
    given = {"x": np.ones((1, 16, 4), "float32")}
    assert [each.signature for each in check_parity(model, file, inputs=given, runtimes="litert").results] == [
        "length_16"
    ]
    _edit(file, SIGNATURE, _lead_to_second)
    report = check_parity(model, file, runtimes="litert", diagnosis_seconds=5)
    assert {each.signature: each.passed for each in report.results}[SIGNATURE] is False
    file.write_bytes(sound)
    _edit(file, "length_16", _halve_weights)
    report = check_parity(model, file, runtimes="litert", diagnosis_seconds=5)
    assert {each.signature: each.passed for each in report.results} == {"length_8": True, "length_16": False}
    assert "model.tflite#length_16: FAILED" in str(report)
    bundle = tmp_path / "bundle.npz"
    write_bundle(report, bundle)
    for content, passed in ((file.read_bytes(), False), (sound, True)):
        file.write_bytes(content)
        (again,) = replay_bundle(bundle, diagnosis_seconds=1).results
        assert (again.signature, again.artifact, again.passed) == ("length_16", str(file), passed)
        assert subprocess.run([sys.executable, bundle], check=False, capture_output=True).returncode == (not passed)
