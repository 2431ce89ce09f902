"""`quantize` on LiteRT files: each recipe writes a smaller file that runs, and the recipe alone repeats it."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe import SinusoidalPositionEncoding
from keras_pe.export import check_parity, export_litert, quantize, read_artifact
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.quantized_tensors import read_quantization
from keras_pe.export.quantization.layer_nodes import read_nodes
from keras_pe.export.quantization.litert_quantizers import LITERT_QUANTIZERS
from tests.export.runtimes.external.present import need_package
from tests.raised import about

WORDS = {"words": np.random.default_rng(0).integers(0, 50, (1500, 12)).astype("int32")}
FUSED = "UNIDIRECTIONAL_SEQUENCE_LSTM"

# A user's script: the quantizer alone, with the plan.
REPEAT = """
import json, sys
from pathlib import Path
from ai_edge_quantizer import Quantizer
from ai_edge_quantizer.utils.calibration_utils import load_calibration_results
source, plan_file, target = sys.argv[1:]
plan = json.loads(Path(plan_file).read_text())
Path("ranges.json").write_text(json.dumps(plan["calibration_cache"]))
ranges, _ = load_calibration_results("ranges.json")
Quantizer(source, **plan["options"]).quantize(ranges, serialize_to_path=target)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_package("ai_edge_quantizer")
    keras.utils.set_random_seed(0)
    inputs = keras.Input((12,), dtype="int32", name="words")
    x = SinusoidalPositionEncoding(name="positions")(keras.layers.Embedding(50, 16, name="embed")(inputs))
    x = keras.layers.Dense(128, activation="relu", name="widen")(x)
    x = keras.layers.GRU(8, name="loop")(keras.layers.Dense(16, name="narrow")(x))
    model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax", name="class")(x))
    folder = tmp_path_factory.mktemp("float")
    model.save(folder / "model.keras")
    return export_litert(model, folder / "model.tflite").path


@pytest.mark.slow
def test_the_recipe_alone_repeats_the_bytes_and_leaves_the_harmful_layers_in_float(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "int8.tflite"
    first = quantize(source.with_suffix(".keras"), source, target, WORDS, error=1e-9, trials=1, write_nearest=True)
    least = first.chosen.held_out
    assert least is not None
    assert {each.layer for each in first.layers} >= {"embed", "positions", "widen", "narrow", "class"}
    report = quantize(source.with_suffix(".keras"), source, target, WORDS, error=least.error * 0.7)
    assert report.passed
    floats = {each.layer for each in report.layers if each.in_float}
    assert floats
    assert floats < {each.layer for each in report.layers}
    # A loop needs equal types before and after its body, so the body stays in float.
    assert any(left.startswith("loop") for left in report.left)
    rounded = {tensor.layer.partition("/")[2].rpartition("_")[0] for tensor in read_quantization(read_artifact(target))}
    assert rounded.isdisjoint(floats - {"embed"})  # a table is read by its rows, which have the type of their user

    script = tmp_path / "repeat.py"
    script.write_text(REPEAT)
    again = tmp_path / "again.tflite"
    arguments = [sys.executable, "-I", str(script), str(source), str(report.plan), str(again)]
    subprocess.run(arguments, check=True, cwd=tmp_path, capture_output=True)
    assert again.read_bytes() == target.read_bytes()
    assert json.loads(Path(str(report.plan)).read_text())["version"].startswith("ai-edge-quantizer ")


@pytest.mark.slow
def test_model_explorer_finds_each_tensor_of_the_node_data_in_the_float_file(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("model_explorer")  # it brings a web server, so no extra installs it
    from model_explorer.builtin_tflite_flatbuffer_adapter import BuiltinTfliteFlatbufferAdapter
    from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

    report = quantize(source, source, tmp_path / "small.tflite", WORDS, error=0.9, trials=1)
    data = report.node_data()
    colors = [GradientItem(**each) for each in data["gradient"]]
    results = {name: NodeDataResult(**each) for name, each in data["results"].items()}
    own = GraphNodeData(results, data["name"], gradient=colors)
    assert json.loads(own.to_json_string()).items() >= data.items()
    (collection,) = BuiltinTfliteFlatbufferAdapter().convert(str(source), {})["graphCollections"]
    outputs = [each for graph in collection.graphs for node in graph["nodes"] for each in node["outputsMetadata"]]
    names = {attribute["value"] for each in outputs for attribute in each["attrs"] if attribute["key"] == "tensor_name"}
    assert results.keys() <= names
    assert sum({each.layer: each.share for each in report.layers}.values()) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.slow_rows(2)
@pytest.mark.parametrize("method", LITERT_QUANTIZERS)
def test_each_recipe_writes_a_smaller_file_that_runs(source: Path, method: str, tmp_path: Path) -> None:
    report = quantize(source, source, tmp_path / "small.tflite", WORDS, method=method, error=0.9, trials=1)
    assert report.passed
    assert report.chosen.nbytes < report.float_bytes
    assert report.chosen.held_out is not None
    assert report.chosen.held_out.error > 0


@pytest.mark.slow
def test_a_node_has_the_layer_of_the_model_and_the_result_has_the_layer_before_it(source: Path) -> None:
    nodes = read_nodes(source, Format.LITERT, ["embed", "positions", "widen", "narrow", "loop", "class"])
    assert {node.layer for node in nodes} == {"embed", "positions", "widen", "narrow", "loop", "class"}
    assert nodes[-1].is_in_body
    assert {node.operator for node in nodes if node.layer == "class"} == {"FULLY_CONNECTED", "SOFTMAX"}


@pytest.mark.slow
def test_16_bits_halve_an_lstm_operator_unless_the_layer_stays_in_float(tmp_path: Path) -> None:
    need_package("ai_edge_quantizer")
    keras.utils.set_random_seed(0)
    inputs = keras.Input((10, 8), name="x")
    x = keras.layers.Bidirectional(keras.layers.LSTM(32, return_sequences=True, name="lstm"), name="both")(
        keras.layers.Masking()(inputs)
    )
    model = keras.Model(inputs, keras.layers.LSTM(32, name="last")(x))
    artifact = export_litert(model, tmp_path / "model.tflite", sizes={"batch": 1})
    rows = np.random.default_rng(0).normal(size=(40, 10, 8)).astype("float32")
    rows[::2, 6:] = 0
    half = tmp_path / "half.tflite"
    report = quantize(model, artifact, half, {"x": rows}, method="float16", error=0.01, trials=1)
    assert report.passed
    assert {each.layer for each in report.layers} == {"both/forward_lstm", "both/backward_lstm", "last"}
    saved = sum(2 * weight.size for weight in model.get_weights() if weight.ndim == 2)  # bytes
    assert report.float_bytes - report.chosen.nbytes > 0.9 * saved  # each constant takes some bytes besides its numbers
    operators = read_operators(half.read_bytes())
    assert sum(each.kind == FUSED for each in operators) == 3
    assert sum(each.kind == "DEQUANTIZE" for each in operators) == 3 * 8
    assert check_parity(model, half, inputs={"x": rows[:1]}, runtimes="litert", precision="float16").passed

    *_, scope = (each.scope for each in operators if each.kind == FUSED)
    quantizer = LITERT_QUANTIZERS["float16"]
    assert quantizer.write is not None
    assert quantizer.leave_in_float is not None
    options = quantizer.leave_in_float(quantizer.options, [scope])
    quantizer.write(str(artifact.path), str(half), options, str(tmp_path / "no ranges"))
    assert sum(each.kind == "DEQUANTIZE" for each in read_operators(half.read_bytes())) == 2 * 8


@pytest.mark.slow
def test_a_file_with_several_signatures_is_refused(tmp_path: Path) -> None:
    need_package("ai_edge_quantizer")
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.Conv1D(5, 3, padding="same", name="y")(x))
    sizes = [{"batch": 1, "length": 8}, {"batch": 1, "length": 16}]
    source = export_litert(model, tmp_path / "both.tflite", sizes=sizes, target="gpu")
    with pytest.raises(ValueError, match="must have one signature", check=about("artifact")):
        quantize(model, source, tmp_path / "small.tflite", {"x": np.zeros((30, 8, 4), "float32")}, error=0.1)
