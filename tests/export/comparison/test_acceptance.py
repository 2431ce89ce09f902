"""A user accepts a share of changed decisions over all cases, but never the end of a runtime's process."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity
from keras_pe.export.results import Problem
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


def write_classifier(path: Path, sign: float, operator: str = "Softmax") -> Path:
    """Writes a file that returns the softmax, or the sigmoid, of its input times a sign."""
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [make("Mul", ["x", "sign"], ["logits"]), make(operator, ["logits"], ["y"])],
        "classifier",
        [tensor("x", onnx.TensorProto.FLOAT, ["batch", 3])],
        [tensor("y", onnx.TensorProto.FLOAT, ["batch", 3])],
        [onnx.numpy_helper.from_array(np.float32(sign), "sign")],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("operator", ["Softmax", "Sigmoid"])
def test_changed_decisions_fail_at_any_tolerance_unless_that_share_is_accepted(tmp_path: Path, operator: str) -> None:
    model, artifact = (write_classifier(tmp_path / f"{sign}.onnx", sign, operator) for sign in (1.0, -1.0))
    near = write_classifier(tmp_path / "near.onnx", 0.9, operator)
    rows = {"x": np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)}
    for accepted in ({"atol": 10.0}, {"rtol": 1e9}, {"precision": "int8"}, {"atol": 10.0, "allow_changed": 0.5}):
        (result,) = check_parity(model, artifact, inputs=rows, **accepted, **ONE).results
        (found,) = result.cases[0].comparisons
        assert (result.passed, result.is_accepted, found.problem) == (False, False, Problem.DECISIONS)
        assert (found.decisions, found.changed_decisions) == (20, 20)
        assert found.tied_decisions == 0 or "precision" in accepted  # without a model the noise is not known
    assert check_parity(model, artifact, inputs=rows, atol=10.0, allow_changed=1.0, **ONE).passed
    assert check_parity(model, near, inputs=rows, atol=10.0, **ONE).passed


@pytest.mark.slow
def test_a_runtime_that_dies_is_not_accepted_whatever_is(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx", None)
    inputs = {"x": np.full((1, 4), DEADLY, np.float32)}
    report = check_parity(model, model, inputs=inputs, runtimes=[spec("Dying")], atol=1e9, diagnosis_seconds=0)
    assert not report.passed
    assert (report.results[0].status, report.results[0].is_accepted) == ("crashed", False)
