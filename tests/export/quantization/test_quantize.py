"""`quantize`: the goal holds on rows that calibration never saw, and the plan alone repeats the file."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnxruntime.quantization import quantize_dynamic

from keras_pe.export import Acceptance, DataError, quantize, read_artifact
from keras_pe.export.artifacts.quantized_tensors import read_quantization
from keras_pe.export.quantization.onnx_quantizers import ONNX_QUANTIZERS
from keras_pe.export.records import QuantizationReport
from tests.export.quantization.samples import ROWS, write_classifier, write_decider
from tests.raised import about

# A user's script: the quantizer alone, with the plan.
REPEAT = """
import json, sys
from pathlib import Path
from onnxruntime.quantization import quantize_static
source, plan_file, target = sys.argv[1:]
plan = json.loads(Path(plan_file).read_text())
Path("ranges.json").write_text(json.dumps(plan["calibration_cache"]))
quantize_static(source, target, None, calibration_cache_path="ranges.json", **plan["options"])
"""


def _has_exact_sums() -> bool:
    """Whether ONNX Runtime adds two products of int8 weights exactly. Without VNNI, x86 processors saturate."""
    product = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 13]>
        sum (uint8[1, 2] x) => (int32[1, 1] y) <int8[2, 1] w = {127, 127}> { y = MatMulInteger(x, w) }"""
    )
    session = onnxruntime.InferenceSession(product.SerializeToString())
    (found,) = session.run(None, {"x": np.full((1, 2), 255, np.uint8)})
    return int(found[0, 0]) == 2 * 127 * 255


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("float") / "model.onnx", gain=60.0)


@pytest.mark.slow
def test_the_plan_alone_repeats_the_bytes_and_leaves_the_harmful_layers_in_float(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "int8.onnx"
    report = quantize(source, source, target, {"x": ROWS}, decisions=0.99)
    assert report.passed
    assert report.filepath == str(target)
    assert {each.layer for each in report.layers if each.in_float} == {
        "wide",
        "last",
    }  # both ends of the values
    quantized = {tensor.layer for tensor in read_quantization(read_artifact(target)) if tensor.role == "weight"}
    assert quantized == {"first"}

    plan = json.loads(Path(str(report.plan)).read_text())
    assert plan["options"]["nodes_to_exclude"] == ["last/MatMul", "last/Softmax", "wide/Add", "wide/MatMul"]
    assert plan["options"]["reduce_range"] == (not _has_exact_sums())
    assert plan["source"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert plan["result"] == hashlib.sha256(target.read_bytes()).hexdigest()
    script = tmp_path / "repeat.py"
    script.write_text(REPEAT)
    again = tmp_path / "again.onnx"
    arguments = [sys.executable, "-I", str(script), str(source), str(report.plan), str(again)]
    subprocess.run(arguments, check=True, cwd=tmp_path, capture_output=True)
    assert again.read_bytes() == target.read_bytes()


@pytest.mark.slow
def test_a_report_is_valid_json_and_has_a_row_for_each_file_and_layer(source: Path, tmp_path: Path) -> None:
    report = quantize(source, source, tmp_path / "int8.onnx", {"x": ROWS}, decisions=0.99)
    held_out = report.chosen.held_out
    assert held_out is not None
    assert held_out.bound is not None
    assert held_out.bound <= 0.01
    assert held_out.rows + report.chosen.calibration.rows == len(ROWS)
    assert report.float_score.changed == 0
    jsonschema.Draft202012Validator(QuantizationReport.json_schema()).validate(json.loads(report.render("json")))
    document = report.document()
    assert [row[0] for row in document.tables[0].rows] == [each.layer for each in report.layers]
    assert len(document.overview.rows) == len(report.trials) + 1
    report.save(tmp_path / "report.html")
    assert "wide" in (tmp_path / "report.html").read_text()
    assert "wide" in str(report)
    assert "larger" not in {each.label for each in document.remarks}
    assert "larger" in {each.label for each in replace(report, float_bytes=1).document().remarks}
    same = tuple(
        replace(each, calibration=replace(each.calibration, changed=0), held_out=None) for each in report.trials
    )
    undecided = replace(report, decides=False, trials=same).document().overview
    assert {row[4:7] for row in undecided.rows} == {("-", "-", "-")}


@pytest.mark.slow
@pytest.mark.parametrize("method", ONNX_QUANTIZERS)
def test_each_quantizer_writes_a_smaller_file_that_runs(method: str, tmp_path: Path) -> None:
    wide = tmp_path / f"{'long' * 60}.onnx"  # ONNX Runtime writes longer names
    content = onnx.load(write_classifier(tmp_path / "model.onnx"))
    (tmp_path / "weights").mkdir()
    onnx.save(content, wide, save_as_external_data=True, location="weights/all", size_threshold=0)
    report = quantize(wide, wide, tmp_path / "small.onnx", {"x": ROWS}, method=method, error=0.5)
    assert report.passed
    assert report.chosen.held_out is not None
    assert 0 < report.chosen.held_out.error < 0.5
    onnx.checker.check_model(onnx.load(tmp_path / "small.onnx"))
    # The converter to 16 bits takes all layers or none, so it ranks none.
    assert {each.layer for each in report.layers} >= (set() if method == "float16" else {"first", "wide", "last"})


@pytest.mark.slow
def test_float16_stores_weights_in_16_bits_and_computes_in_float32(tmp_path: Path) -> None:
    source, target = write_classifier(tmp_path / "model.onnx"), tmp_path / "small.onnx"
    report = quantize(source, source, target, {"x": ROWS}, decisions=0.99, method="float16")
    assert report.passed
    assert report.layers == ()
    graph = onnx.shape_inference.infer_shapes(onnx.load(target), strict_mode=True).graph
    weights = [each for each in onnx.load(source).graph.initializer if each.data_type == onnx.TensorProto.FLOAT]
    halves = {each.name for each in graph.initializer if each.data_type == onnx.TensorProto.FLOAT16}
    assert halves == {each.name for each in weights}
    types = {each.name: each.type.tensor_type.elem_type for each in graph.value_info}
    computed = [name for node in graph.node if node.op_type != "Cast" for name in node.output if name in types]
    assert {types[name] for name in computed} == {onnx.TensorProto.FLOAT}
    assert not quantize(source, source, target, {"x": ROWS}, size=0.3, method="float16").passed


@pytest.mark.slow
def test_a_goal_out_of_reach_writes_nothing_unless_asked(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "int8.onnx"
    report = quantize(source, source, target, {"x": ROWS}, error=1e-9)
    assert not report.passed
    assert report.filepath is None
    assert not list(tmp_path.iterdir())
    assert report.chosen.held_out is not None
    report = quantize(source, source, target, {"x": ROWS}, error=1e-9, write_nearest=True)
    assert not report.passed
    assert target.exists()
    assert Path(str(report.plan)).exists()


@pytest.mark.slow
def test_the_rows_must_suffice_to_prove_the_goal(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"at least 3,218 rows"):
        quantize(source, source, tmp_path / "int8.onnx", {"x": ROWS[:3000]}, decisions=0.999)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({}, "decisions"),
        ({"decisions": 0.99, "size": 0.5}, "size"),
        ({"decisions": 1.0}, "decisions"),
        ({"error": 0.0}, "error"),
        ({"size": 0.5, "trials": 16}, "trials"),
        ({"size": 0.5, "calibration_share": 1.0}, "calibration_share"),
        ({"size": 0.5, "method": "statik"}, "method"),
    ],
)
def test_an_argument_out_of_range_is_refused_before_the_model_is_read(given: dict[str, float], argument: str) -> None:
    with pytest.raises(ValueError, check=about(argument)):
        quantize("no.keras", "no.onnx", "out.onnx", {"x": np.zeros((3, 16))}, **given)  # type: ignore[arg-type]


def test_a_tolerance_is_refused_since_the_goal_says_what_is_accepted(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, check=about("rtol")):
        quantize(source, source, tmp_path / "out.onnx", {"x": ROWS}, error=0.1, acceptance=Acceptance(rtol=0.1))


def test_the_float_file_is_an_existing_file_other_than_the_result(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, check=about("filepath")):
        quantize(source, source, source, {"x": ROWS}, error=0.1)
    with pytest.raises(ValueError, check=about("artifact")):
        quantize(source, source.parent, tmp_path / "out.onnx", {"x": ROWS}, error=0.1)
    with pytest.raises(FileNotFoundError, match=r"no\.onnx"):
        quantize(source, tmp_path / "no.onnx", tmp_path / "out.onnx", {"x": ROWS}, error=0.1)
    quantized = tmp_path / "quantized.onnx"
    quantize_dynamic(source, quantized)
    with pytest.raises(ValueError, check=about("artifact")):
        quantize(source, quantized, tmp_path / "out.onnx", {"x": ROWS}, error=0.1)


@pytest.mark.slow
def test_a_file_that_returns_the_decision_alone_is_quantized(tmp_path: Path) -> None:
    source, target = write_decider(tmp_path / "model.onnx"), tmp_path / "small.onnx"
    report = quantize(source, source, target, {"x": ROWS}, decisions=0.95)
    assert report.passed
    assert report.chosen.held_out is not None
    assert report.chosen.held_out.changed > 0
    assert {each.layer for each in report.layers} >= {"first", "wide", "last"}
    unchanged = quantize(source, source, target, {"x": ROWS}, decisions=0.95, method="int8-weights")
    assert {each.layer for each in unchanged.layers} >= {"first", "wide", "last"}
    assert quantize(source, source, target, {"x": ROWS}, size=0.7, method="dynamic").passed
    with pytest.raises(ValueError, check=about("error")):
        quantize(source, source, target, {"x": ROWS}, error=0.1)
