"""An artifact with other names of inputs and outputs is compared, and the report lists the matches."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from keras_pe.export import check_parity, replay_bundle, write_bundle
from keras_pe.export.artifacts.artifact import VERSION_KEY

MODEL = {"x": "x", "y": "y", "total": "total", "wide": "wide", "tall": "tall"}


def write_model(
    path: Path, names: Mapping[str, str] = MODEL, outputs: tuple[str, ...] = ("total", "wide", "tall")
) -> Path:
    """Writes `total = x + y` (float), `wide = x * y` of the same kind, `tall = x` in integers, under other names."""
    named = {**MODEL, **names}
    kinds = {"total": TensorProto.FLOAT, "wide": TensorProto.FLOAT, "tall": TensorProto.INT64}
    x, y = named["x"], named["y"]
    nodes = {
        "total": helper.make_node("Add", [x, y], [named["total"]]),
        "wide": helper.make_node("Mul", [x, y], [named["wide"]]),
        "tall": helper.make_node("Cast", [x], [named["tall"]], to=TensorProto.INT64),
    }
    graph = helper.make_graph(
        [nodes[name] for name in outputs],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in (x, y)],
        [helper.make_tensor_value_info(named[name], kinds[name], ["batch", 3]) for name in outputs],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


OTHERS = {"x": "args_0", "y": "args_1", "total": "output_0", "wide": "output_1", "tall": "output_2"}


@pytest.mark.slow
def test_other_names_are_matched_and_every_report_says_which_was_taken_for_which(model: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other.onnx", OTHERS)
    report = check_parity(model, other, runtimes=["onnxruntime[disabled]", "onnxruntime[all]"])
    assert report.passed, str(report)
    for result in report.results:
        assert {each.model: each.artifact for each in result.names} == OTHERS
        assert {each.model for each in result.names if each.by_order} == {"x", "y", "total", "wide"}
    said = (
        "input 'x' is 'args_0', input 'y' is 'args_1', output 'total' is 'output_0', output 'wide' is 'output_1', "
        "output 'tall' is 'output_2'."
    )
    assert " ".join(str(report).split()).count(said) == 1
    assert said in report.render("markdown").replace("\\", "")
    assert said.replace("'", "&#39;") in report.render("html")
    (first, _) = json.loads(report.render("json"))["results"]
    assert {"kind": "output", "model": "tall", "artifact": "output_2", "by_order": False} in first["names"]


@pytest.mark.slow
def test_nothing_is_said_of_names_that_are_the_models(model: Path, tmp_path: Path) -> None:
    report = check_parity(model, write_model(tmp_path / "other.onnx", {}), runtimes="onnxruntime[all]")
    assert report.passed
    assert report.results[0].names == ()
    assert "other names" not in str(report)


@pytest.mark.slow
def test_equal_names_come_first_and_type_and_shape_before_order(model: Path, tmp_path: Path) -> None:
    names = {"total": "first", "tall": "second"}
    other = write_model(tmp_path / "other.onnx", names, outputs=("tall", "wide", "total"))
    report = check_parity(model, other, runtimes="onnxruntime[all]")
    assert report.passed, str(report)
    assert {each.model: each.artifact for each in report.results[0].names} == names
    assert not any(each.by_order for each in report.results[0].names)


@pytest.mark.slow
@pytest.mark.parametrize("names", [OTHERS, MODEL], ids=["other names", "the model's names"])
def test_swapped_outputs_are_found_under_any_names(model: Path, tmp_path: Path, names: dict[str, str]) -> None:
    swapped = {**names, "total": names["wide"], "wide": names["total"]}
    order = ("wide", "total", "tall")
    report = check_parity(model, write_model(tmp_path / "other.onnx", swapped, order), runtimes="onnxruntime[all]")
    assert not report.passed
    assert [finding.cause for finding in report.findings] == ["swapped outputs"]


@pytest.mark.slow
def test_a_wrong_match_of_inputs_does_not_pass(tmp_path: Path) -> None:
    outputs = ("total", "tall")  # the second knows the inputs apart
    model = write_model(tmp_path / "model.onnx", outputs=outputs)
    other = write_model(tmp_path / "other.onnx", {"x": "args_1", "y": "args_0"}, outputs)
    file = onnx.load(other)
    first, second = file.graph.input
    file.graph.input.remove(first)
    file.graph.input.append(first)
    assert [each.name for each in file.graph.input] == [second.name, "args_1"]
    onnx.save(file, other)
    report = check_parity(model, other, runtimes="onnxruntime[all]")
    assert not report.passed
    assert "'x' and 'y' only by order" in " ".join(str(report).split())


def test_inputs_that_cannot_be_matched_are_an_error_with_both_sides_and_the_way_out(
    model: Path, tmp_path: Path
) -> None:
    file = onnx.load(write_model(tmp_path / "other.onnx", OTHERS))
    file.graph.input.append(helper.make_tensor_value_info("third", TensorProto.INT64, [1]))
    onnx.save(file, tmp_path / "other.onnx")
    (result,) = check_parity(model, tmp_path / "other.onnx", runtimes="onnxruntime[all]").results
    assert not result.passed
    assert "'x' float32 (batch, 3), 'y' float32 (batch, 3);" in result.error
    assert "'args_0' float32 (batch, 3), 'args_1' float32 (batch, 3), 'third' int64 (1)." in result.error


@pytest.mark.slow
def test_an_output_of_another_type_under_another_name_is_not_matched(model: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other.onnx", {"total": "output_0"}, ("wide", "total"))
    (result,) = check_parity(model, other, runtimes="onnxruntime[all]").results
    causes = {finding.output: finding for finding in result.findings}
    assert causes["tall"].cause == "missing output"
    assert "'tall' int64 (8, 3)" in causes["tall"].evidence
    assert causes["total"].cause == "renamed output", "told by its values, but the number of outputs is another"


@pytest.mark.slow
def test_another_name_in_a_file_of_this_package_is_a_fault(model: Path, tmp_path: Path) -> None:
    """It promises the model's names, and who calls it counts on them."""
    for names, cause in (({"wide": "output_1"}, "renamed output"), ({"x": "args_0"}, None)):
        file = onnx.load(write_model(tmp_path / "other.onnx", names))
        helper.set_model_props(file, {VERSION_KEY: "0.1.0"})
        onnx.save(file, tmp_path / "other.onnx")
        (result,) = check_parity(model, tmp_path / "other.onnx", runtimes="onnxruntime[all]").results
        assert not result.passed
        assert result.names == ()
        assert not cause or [finding.cause for finding in result.findings] == [cause]
        assert cause or "the artifact takes 'args_0'" in result.error
        assert cause or "Export the model again" in result.error


@pytest.mark.slow
def test_a_failure_under_other_names_comes_back_from_its_bundle(model: Path, tmp_path: Path) -> None:
    file = onnx.load(write_model(tmp_path / "other.onnx", OTHERS))
    file.graph.node[0].op_type = "Sub"
    onnx.save(file, tmp_path / "other.onnx")
    report = check_parity(model, tmp_path / "other.onnx", runtimes="onnxruntime[all]")
    write_bundle(report, tmp_path / "failure.npz")
    again = replay_bundle(tmp_path / "failure.npz")
    (worst,) = {result.worst[1].max_abs_diff for result in (*report.results, *again.results) if result.worst}
    assert np.isfinite(worst)
    assert again.results[0].names == report.results[0].names
