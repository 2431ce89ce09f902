"""The demonstration does what the README says, in a process of its own."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from keras_pe.cli import main
from keras_pe.cli.demo import FAULTS as NAMES

pytestmark = pytest.mark.slow


def test_the_demo_leaves_a_model_two_exports_a_report_and_a_picture(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "keras_pe", "demo", str(tmp_path / "out"), "--break", "layout"]
    talkative = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=talkative)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.findall(r"(?i)tensorflow|onednn|cuda|warning|absl", done.stderr), done.stderr
    assert "passed" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "broken.html", "broken.onnx", "forecast.png", "forecaster.keras", "forecaster.onnx", "forecaster_saved_model",
        "parity.html", "report.json",
    ]  # fmt: skip
    assert "cause:          wrong layout in layer 'positions'" in done.stdout
    assert "what to do now: Give the encoding the model's layout" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["passed"]
    assert report["parity"]["passed"]
    assert report["rmse_ppm"]["onnxruntime"] < report["rmse_ppm"]["baseline"]
    assert report["rmse_below_baseline_percent"] > 0
    header = (tmp_path / "out" / "forecast.png").read_bytes()[:24]
    width, height = struct.unpack(">II", header[16:])
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(width, height) > 500

    files = [str(tmp_path / "out" / f"forecaster.{suffix}") for suffix in ("keras", "onnx")]
    assert CliRunner().invoke(main, ["check", *files, "--runtime", "onnxruntime[all]"]).exit_code == 0


def test_the_command_line_knows_every_fault() -> None:
    from keras_pe.demo.file_faults import FAULTS

    assert tuple(FAULTS) == NAMES


def test_a_folder_that_cannot_be_made_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    command = [sys.executable, "-m", "keras_pe", "demo", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is a file" in done.stderr
    assert (tmp_path / "file").read_text() == "in the way"
