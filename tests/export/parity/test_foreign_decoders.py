"""A decoder that PyTorch or onnxruntime-genai exported is checked with its cache, and a planted fault has its cause."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras_hub
import pytest

from keras_pe.export import check_parity
from keras_pe.export.results import Cause
from tests.export.decoders.faulty_decoders import EditedGraph, exchange, ignore_mask
from tests.source_tree import ROOT

for _module in ("torch", "onnxscript", "transformers", "safetensors", "onnxruntime_genai"):
    pytest.importorskip(_module)
pytestmark = pytest.mark.slow

_SIZES: Mapping[str, Mapping[str, Any]] = {
    "dynamo.onnx": {},
    "script.onnx": {},
    # Its operator takes several tokens after a cache in a batch of one row alone.
    "genai/model.onnx": {"sizes": {"batch_size": (1,)}},
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The model of keras-hub with the weights of transformers, and the folder with the files."""
    folder = tmp_path_factory.mktemp("exported")
    command = [sys.executable, "-m", "tests.export.decoders.other_exporters", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    backbone = keras_hub.models.LlamaBackbone.from_preset(str(folder / "hf"))
    return keras_hub.models.LlamaCausalLM(backbone, preprocessor=None), folder


def _path(folder: Path, file: str) -> Path:
    """Returns the path of a file. The builder of onnxruntime-genai runs if its file is requested."""
    if file.startswith("genai") and not (folder / file).exists():
        options = {"i": folder / "hf", "o": folder / "genai", "p": "fp32", "e": "cpu", "c": folder / "temporary"}
        given = [str(each) for name, value in options.items() for each in (f"-{name}", value)]
        subprocess.run([sys.executable, "-P", "-m", "onnxruntime_genai.models.builder", *given], check=True)
    return folder / file


@pytest.mark.slow_rows(1)
@pytest.mark.parametrize("file", _SIZES)
def test_a_right_file_passes_single_calls_and_sequences(exported: tuple[Any, Path], file: str) -> None:
    model, folder = exported
    report = check_parity(model, _path(folder, file), runtimes="onnxruntime[all]", **_SIZES[file])
    assert report.passed, str(report)
    assert {"prompt, then token by token", "prompts padded at the left"} <= {
        case.name for result in report.results for case in result.cases
    }


def _begin_at_0(graph: EditedGraph) -> None:
    positions = "position_ids"
    graph.redirect(positions, graph.add("Sub", positions, graph.slice(positions, 0, 1, 1)))


_FAULTS: list[tuple[str, Callable[[EditedGraph], None], Cause]] = [
    ("dynamo.onnx", _begin_at_0, Cause.START_INDEX_OFF),
    ("dynamo.onnx", ignore_mask, Cause.DROPPED_MASK),
    ("script.onnx", exchange, Cause.EXCHANGED_STATES),
    ("genai/model.onnx", exchange, Cause.EXCHANGED_STATES),
]


@pytest.mark.slow_rows(2)
@pytest.mark.parametrize(("file", "change", "cause"), _FAULTS)
def test_a_fault_has_its_cause(
    exported: tuple[Any, Path], file: str, change: Callable[[EditedGraph], None], cause: Cause
) -> None:
    model, folder = exported
    path = _path(folder, file)
    graph = EditedGraph(path)
    change(graph)
    faulty = path.with_name("faulty.onnx")
    graph.save(faulty)
    (result,) = check_parity(model, faulty, runtimes="onnxruntime[all]", **_SIZES[file]).results
    assert not result.passed
    assert {finding.cause for finding in result.findings} == {cause}, str(result.findings)
