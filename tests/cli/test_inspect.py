"""`keras-pe inspect` describes files of any exporter without running them."""

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from keras_pe.cli import main
from tests.cli.test_check_data import write_model


def inspect(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": ""}).invoke(main, ["inspect", *map(str, arguments)])


def test_inputs_outputs_and_operators_of_a_file_of_another_exporter_are_printed(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", None)
    result = inspect(path)
    assert result.exit_code == 0
    for text in ("x", "(batch, 4)", "float32", "MatMul, Softmax", str(path)):
        assert text in result.output


def test_json_is_the_artifact_with_its_contents(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", None)
    described = json.loads(inspect(path, "--json").output)
    assert described["path"] == str(path)
    assert described["inputs"] == [{"name": "x", "shape": ["batch", 4], "dtype": "float32"}]
    assert described["contents"][0]["operators"] == {"MatMul": 1, "Softmax": 1, "Identity": 1}


def test_a_name_cannot_control_the_terminal(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", None)
    model = onnx.load(path)
    model.graph.output[0].name = "\x1b[31mred"
    model.graph.node[-1].output[0] = "\x1b[31mred"
    onnx.save(model, path)
    result = inspect(path)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert r"\x1b[31mred" in result.output


@pytest.mark.parametrize("content", [b"", b"text", b"\x08\x07" * 40])
def test_a_file_that_is_no_artifact_ends_with_2_and_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    result = inspect(path)
    assert result.exit_code == 2
    assert "FILE must be an artifact" in result.output
    assert str(path) in result.output
