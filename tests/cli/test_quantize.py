"""`keras-pe quantize`: exit codes, the report and the files, with ONNX files that stand for models."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from keras_pe.cli import main
from keras_pe.cli.quantize import quantize
from keras_pe.export.quantization.quantizers import METHODS
from tests.export.quantization.samples import ROWS, write_classifier


@pytest.mark.slow
def test_a_file_that_reaches_the_goal_is_written_and_one_that_does_not_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_classifier(Path("model.onnx"))
    np.savez("rows.npz", x=ROWS)
    command = ["quantize", "model.onnx", "model.onnx", "int8.onnx", "--data", "rows.npz"]
    done = CliRunner().invoke(
        main, [*command, "--decisions", "0.9", "--report", "report.json", "--node-data", "nodes.json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(Path("report.json").read_text())["passed"] is True
    assert "int8.onnx.plan.json" in done.output
    shares = json.loads(Path("nodes.json").read_text())["results"]
    assert set(shares) == {output for node in onnx.load("model.onnx").graph.node for output in node.output}
    Path("int8.onnx").unlink()
    done = CliRunner().invoke(main, [*command, "--error", "1e-9", "--trials", "1", "--quiet"])
    assert done.exit_code == 1, done.output
    assert not Path("int8.onnx").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), "--decisions"),
        (("--size", "2"), "--size"),
        (("--size", "0.5", "--trials", "0"), "--trials"),
        (("--node-data", "."), "--node-data"),
    ],
)
def test_a_wrong_option_ends_with_2_and_its_name(options: tuple[str, ...], named: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    model = str(tmp_path / "model.onnx")
    done = CliRunner().invoke(main, ["quantize", model, model, "out.onnx", "--data", "rows.npz", *options])
    assert done.exit_code == 2
    assert named in done.output


def test_the_command_offers_every_quantizer() -> None:
    (method,) = (each for each in quantize.params if each.name == "method")
    assert list(method.type.choices) == list(METHODS)
