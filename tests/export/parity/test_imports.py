"""The check is cheap to import, since heavy packages are imported late, and mostly in other processes."""

import subprocess
import sys

import pytest

HEAVY = ("keras", "tensorflow", "onnxruntime", "onnx", "matplotlib", "ai_edge_litert", "openvino", "jinja2", "rich")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["keras_pe.export.parity", "keras_pe.export.parity.pytest_plugin", "keras_pe.cli"])
def test_nothing_heavy_comes_with(module):
    code = f"import sys; import {module}; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.stdout.strip() == ""
