"""What a user accepts: of decisions a share over all cases, and never that a runtime dies."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity
from tests.cli.test_check_data import write_model
from tests.export.parity.work.lookup_runtime import DEADLY, spec

ONE = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0}


def write_counter(path: Path, added_from: int) -> Path:
    """Writes a file that returns its integers, and one more of those from a number on."""
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Less", ["x", "from"], ["is_sound"]),
        make("Add", ["x", "one"], ["more"]),
        make("Where", ["is_sound", "x", "more"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "counter",
        [tensor("x", onnx.TensorProto.INT64, ["batch", "length"])],
        [tensor("y", onnx.TensorProto.INT64, ["batch", "length"])],
        [onnx.numpy_helper.from_array(np.int64(value), name) for name, value in (("from", added_from), ("one", 1))],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.mark.slow
def test_integers_that_may_change_are_counted_over_all_cases(tmp_path: Path) -> None:
    model, artifact = write_counter(tmp_path / "model.onnx", 1000), write_counter(tmp_path / "artifact.onnx", 90)
    ten_of_hundred, none = ({"x": np.arange(start, start + 100).reshape(1, 100)} for start in (0, -200))
    for inputs, share, passes in (
        ([ten_of_hundred], 0.1, True),
        ([ten_of_hundred], 0.09, False),
        ([ten_of_hundred, none], 0.05, True),
        ([ten_of_hundred, none], 0.04, False),
    ):
        report = check_parity(model, artifact, inputs=inputs, allow_changed=share, **ONE)
        assert report.passed == report.results[0].is_accepted == passes
    assert not check_parity(model, artifact, inputs=[none, ten_of_hundred], rtol=1e-3, **ONE).passed


@pytest.mark.slow
def test_a_runtime_that_dies_is_not_accepted_whatever_is(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx", None)
    inputs = {"x": np.full((1, 4), DEADLY, np.float32)}
    report = check_parity(model, model, inputs=inputs, runtimes=[spec("Dying")], atol=1e9, diagnosis_seconds=0)
    assert not report.passed
    assert (report.results[0].status, report.results[0].is_accepted) == ("crashed", False)
