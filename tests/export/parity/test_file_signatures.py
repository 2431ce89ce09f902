"""A check runs each signature of a LiteRT file that has a signature for each set of sizes."""

import copy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from keras import layers

from keras_pe.export import check_parity, export_litert, replay_bundle
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_file import METADATA, SIGNATURE, pack_model
from keras_pe.export.artifacts.litert_merging import extract_signature
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.parity.bundle import write_bundle
from keras_pe.export.parity.file_signatures import ExtractedSignature, FileSignatures
from keras_pe.export.results import RunStatus, RuntimeResult

FILE = Path("model.tflite")
PARTS = {Path(key): ExtractedSignature(FILE, key, {"x": (1, size)}) for key, size in (("short", 8), ("long", 16))}


@pytest.mark.parametrize(
    ("path", "sizes"), [(Path("short"), [8, 7]), (Path("long"), [16, 16]), (Path("other.onnx"), [8, 16, 7, 16])]
)
def test_a_signature_gets_the_cases_of_its_sizes_and_the_first_one_those_of_no_signature(
    path: Path, sizes: list[int]
) -> None:
    cases = [Case(str(number), {"x": np.zeros((1, size))}, "") for number, size in enumerate((8, 16, 7, 16))]
    found = FileSignatures(PARTS).select(cases, [path])
    assert [case.inputs["x"].shape[1] for case in found] == sizes


@pytest.mark.parametrize(
    ("given", "shapes", "takes"),
    [
        ({"input_layer_1": (1, 8)}, {"input_layer": (1, 8)}, True),
        ({"input_layer_1": (1, 16)}, {"input_layer": (1, 8)}, False),
        ({"input_layer_5": (1, 8), "input_layer_4": (1,)}, {"input_layer_1": (1, 8), "input_layer": (1,)}, True),
        ({"input_layer_5": (1,), "input_layer_4": (1, 8)}, {"input_layer_1": (1, 8), "input_layer": (1,)}, False),
        ({"x": (3, 8)}, {"x": ("x_axis_0", 8)}, True),
        ({"x": (3, 16)}, {"x": ("x_axis_0", 8)}, False),
        ({"x": (8,)}, {"x": (1, 8)}, False),
        ({"x": (1, 8), "mask": (1, 8)}, {"x": (1, 8)}, True),  # a file may lack an input
        ({"y": (1, 8)}, {"x": (1, 8)}, False),
    ],
)
def test_a_signature_takes_cases_of_its_sizes_with_renumbered_names_and_any_free_size(
    given: dict[str, tuple[int, ...]], shapes: dict[str, tuple[int | str, ...]], takes: bool
) -> None:
    case = Case("own", {name: np.zeros(shape) for name, shape in given.items()}, "")
    assert ExtractedSignature(FILE, "short", shapes).takes(case) is takes


def test_a_signature_without_a_case_is_named_and_fails_where_coverage_is_required() -> None:
    (found,) = FileSignatures(PARTS).without_cases([None, Path("other.onnx"), Path("long"), Path("long")])
    assert (found.artifact, found.signature, found.passed) == ("model.tflite", "long", False)


def test_a_body_that_two_branches_share_is_extracted_once() -> None:
    def graph(*operators: Any) -> Any:
        return schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[*operators])

    branch = schema.OperatorT(
        builtinOptionsType=schema.BuiltinOptions.IfOptions, builtinOptions=schema.IfOptionsT(3, 3)
    )
    loop = schema.OperatorT(
        builtinOptionsType=schema.BuiltinOptions.WhileOptions, builtinOptions=schema.WhileOptionsT(4, 5)
    )
    signature = schema.SignatureDefT(inputs=[], outputs=[], signatureKey=b"long", subgraphIndex=1)
    model = schema.ModelT(
        version=3,
        operatorCodes=[schema.OperatorCodeT()],
        subgraphs=[graph(), graph(branch), graph(), graph(loop), graph(), graph()],
        buffers=[schema.BufferT()],
        signatureDefs=[signature],
    )
    found = schema.ModelT.InitFromPackedBuf(extract_signature(pack_model(model), "long"), 0).subgraphs
    options = [vars(operator.builtinOptions) for graph in found for operator in graph.operators or ()]
    assert (len(found), options) == (
        4,
        [{"thenSubgraphIndex": 1, "elseSubgraphIndex": 1}, {"condSubgraphIndex": 2, "bodySubgraphIndex": 3}],
    )


def test_a_result_names_the_file_and_the_signature() -> None:
    own = RuntimeResult("long", Format.LITERT, "litert", passed=True, status=RunStatus.COMPARED)
    found = FileSignatures(PARTS).restore(own)
    assert (found.artifact, found.signature, found.subject) == ("model.tflite", "long", "model.tflite#long")


def _edit(file: Path, key: str, fault: Any) -> None:
    """Changes the signature and the graph of a key in a LiteRT file."""
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


def _lead_nowhere(_: Any, signature: Any, __: Any) -> None:
    signature.subgraphIndex = 9


def _break_description(model: Any, signature: Any, _: Any) -> None:
    name = f"{METADATA}/{signature.signatureKey.decode()}".encode()
    (entry,) = [each for each in model.metadata if each.name == name]
    model.buffers[entry.buffer].data = np.frombuffer(b"{", np.uint8)


def _lead_to_second(_: Any, signature: Any, __: Any) -> None:
    signature.subgraphIndex = 1


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, Path, Path]:
    """A model, a file with the signatures `length_8` and `length_16`, and a file with `length_16` only."""
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, layers.Conv1D(5, 3, padding="same", name="y")(x))
    folder = tmp_path_factory.mktemp("exported")
    files = folder / "both.tflite", folder / "one.tflite"
    export_litert(model, files[0], target="gpu", sizes=[{"length": 8}, {"length": 16}])
    export_litert(model, files[1], target="gpu", sizes={"length": 16})
    return model, *files


def _check(model: Any, file: Path, **options: Any) -> Any:
    return check_parity(model, file, runtimes="litert", diagnosis_seconds=1, **options)


def _verdicts(found: Any) -> dict[str, bool]:
    return {each.signature: each.passed for each in found.results}


def _copy(file: Path, folder: Path) -> Path:
    return Path(shutil.copy(file, folder / "model.tflite"))


@pytest.mark.slow
def test_each_signature_runs_the_cases_of_its_sizes_and_one_without_is_named(
    tmp_path: Path, exported: tuple[keras.Model, Path, Path]
) -> None:
    model, file, _ = exported
    given = [{"x": np.ones((1, size, 4), "float32")} for size in (8, 16)]
    found = check_parity(model, file, inputs=given, runtimes=["litert", "keras[graph]"])
    assert [(each.signature, each.passed, len(each.cases)) for each in found.results] == [
        ("", True, 2),  # the compiled model
        ("length_8", True, 1),
        ("length_16", True, 1),
    ]
    assert _verdicts(_check(file, _copy(file, tmp_path), inputs=given[0])) == {"length_8": True}
    stored = tmp_path / "stored.npz"
    for reference in (file, stored):  # both have length 8
        np.savez(stored, **{"inputs/x": given[0]["x"], "outputs/y": np.asarray(model(given[0]["x"]))})
        found = _check(reference, _copy(file, tmp_path))
        assert _verdicts(found) == {"length_8": True}
        assert found.coverage.signatures == (f"{tmp_path / 'model.tflite'}#length_16",)
        assert "model.tflite#length_16" in str(found)
    found = _check(model, file, inputs=given[0], require_coverage=True)
    assert (found.passed, _verdicts(found)) == (False, {"length_8": True, "length_16": False})


@pytest.mark.slow
@pytest.mark.parametrize("fault", [_lead_nowhere, _break_description])
def test_a_damaged_signature_is_a_failed_result_beside_the_sound_one(
    tmp_path: Path, exported: tuple[keras.Model, Path, Path], fault: Any
) -> None:
    model, file, _ = exported
    damaged = _copy(file, tmp_path)
    _edit(damaged, "length_16", fault)
    (sound, other) = sorted(_check(model, damaged).results, key=lambda each: not each.passed)
    assert (sound.signature, sound.passed) == ("length_8", True)
    assert (other.signature, other.passed, other.artifact) == ("length_16", False, str(damaged))


@pytest.mark.slow
def test_a_fault_in_one_signature_is_found_there_and_replayed_there(
    tmp_path: Path, exported: tuple[keras.Model, Path, Path]
) -> None:
    model, original, other = exported
    file, sound = _copy(original, tmp_path), original.read_bytes()
    report = check_parity(model, file, runtimes=["litert", "litert[builtin]"])
    assert [(each.signature, each.passed) for each in report.results] == [
        *[("length_8", True)] * 2,
        *[("length_16", True)] * 2,
    ]
    _edit(file, SIGNATURE, _lead_to_second)
    assert _verdicts(_check(model, file))[SIGNATURE] is False
    file.write_bytes(sound)
    _edit(file, "length_16", _halve_weights)
    report = check_parity(model, file, runtimes="litert", diagnosis_seconds=5)
    assert _verdicts(report) == {"length_8": True, "length_16": False}
    assert "model.tflite#length_16: FAILED" in str(report)
    bundle = tmp_path / "bundle.npz"
    write_bundle(report, bundle)
    for content, passed in ((file.read_bytes(), False), (sound, True)):
        file.write_bytes(content)
        (again,) = replay_bundle(bundle, diagnosis_seconds=1).results
        assert (again.signature, again.artifact, again.passed) == ("length_16", str(file), passed)
        assert subprocess.run([sys.executable, bundle], check=False, capture_output=True).returncode == (not passed)
    for content in (sound[:100], other.read_bytes()):  # truncated, and exported again with one set of sizes
        file.write_bytes(content)
        (again,) = replay_bundle(bundle, diagnosis_seconds=1).results
        assert (again.signature, again.status) == ("length_16", RunStatus.NOT_LOADED)
