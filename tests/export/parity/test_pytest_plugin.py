"""The fixture: one line in a user's own suite is enough."""

import subprocess
import sys

import numpy as np
import onnx

TEST = """
def test_same(parity):
    assert parity("one.onnx", "one.onnx", runtimes=["onnxruntime[all]"]).passed

def test_other(parity):
    parity("one.onnx", "other.onnx", runtimes=["onnxruntime[all]"])
"""


def test_one_line_passes_or_fails_with_the_worst_difference(tmp_path):
    for name, factor in (("one", 2.0), ("other", 2.002)):
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Mul", ["x", "factor"], ["y"])],
            "scale",
            [value("x", onnx.TensorProto.FLOAT, ["batch"])],
            [value("y", onnx.TensorProto.FLOAT, ["batch"])],
            [onnx.numpy_helper.from_array(np.float32(factor), "factor")],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        onnx.save(model, tmp_path / f"{name}.onnx")
    (tmp_path / "test_models.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "keras_pe.export.parity.pytest_plugin", "-q", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        # An installed package has an entry point that would load the plugin a second time.
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "onnxruntime[all] differs from one.onnx in output 'y'" in done.stdout
