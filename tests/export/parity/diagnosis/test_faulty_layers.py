"""The location of a fault: the first layer that differs, and the layers after it, in ONNX files and SavedModels."""

import json
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from fault_examples import seeded

from keras_pe.export import check_parity, export_onnx, export_saved_model
from keras_pe.export.artifacts.artifact import LAYERS_KEY
from tests.export.parity.diagnosis.planted import Compute, Inputs, Planted, diagnose_planted


def _model(shift: float = 0.0) -> keras.Model:
    keras.utils.set_random_seed(5)
    inputs = keras.Input((None, 8), name="x")
    x = keras.layers.Dense(8, activation="tanh", name="first")(inputs)
    second = keras.layers.Dense(8, activation="tanh", name="second")
    x = second(x)
    beside = keras.layers.Dense(3, name="beside")(inputs)
    x = keras.layers.Dense(8, name="third")(x)
    second.bias.assign(second.bias + shift)
    return keras.Model(inputs, {"through": keras.layers.Dense(2, name="last")(x), "beside": beside})


@pytest.mark.parametrize(("export", "runtime"), [
    (export_onnx, "onnxruntime[all]"),
    pytest.param(export_saved_model, "tensorflow", marks=pytest.mark.slow),  # a second process with TensorFlow in it
])  # fmt: skip
def test_the_fault_originates_in_one_layer_and_is_followed_by_the_next(export, runtime, tmp_path):
    artifact = export(_model(shift=1e-2), tmp_path / ("model.onnx" if export is export_onnx else "model"))
    (result,) = check_parity(_model(), artifact, runtimes=[runtime]).results
    differing = {layer.layer: layer.originates_here for layer in result.layers if layer.differs}
    assert differing == {"second": True, "third": False, "last": False}
    assert {layer.layer for layer in result.layers if not layer.differs} >= {"first", "beside"}
    assert result.first_layer_that_differs == "second"
    assert {finding.layer for finding in result.findings} == {"second"}
    (second,) = [layer for layer in result.layers if layer.layer == "second"]
    # The bias is off by 1e-2 and the slope of tanh is at most 1; somewhere among the values it is near 1.
    assert 5e-3 < second.max_abs_diff <= 1.0001e-2


@pytest.mark.slow
def test_reading_inside_leaves_the_verdict_as_it_was(tmp_path):
    artifact = export_onnx(_model(shift=1e-2), tmp_path / "model.onnx")
    before = artifact.path.read_bytes()
    one, two = (check_parity(_model(), artifact, runtimes=["onnxruntime[all]"]).results[0] for _ in range(2))
    assert one.cases == two.cases
    assert artifact.path.read_bytes() == before
    worst = one.worst[1]
    recorded = one.recording
    assert np.abs(recorded.truth[worst.output] - recorded.actual[worst.output]).max() == worst.max_abs_diff


def _twins() -> keras.Model:
    """Two branches of the same weights, which return the same."""
    keras.utils.set_random_seed(6)
    inputs = keras.Input((None, 8), name="x")
    left, right = (keras.layers.Dense(8, activation="tanh", name=name) for name in ("left", "right"))
    both = keras.layers.Concatenate(name="both")([left(inputs), right(inputs)])
    model = keras.Model(inputs, keras.layers.Dense(3, name="head")(both))
    right.set_weights(left.get_weights())
    return model


def _with_another_activation(source: Path, path: Path, layer: str) -> Path:
    file = onnx.load(source)
    (node,) = [node for node in file.graph.node if node.op_type == "Tanh" and node.name.startswith(f"{layer}/")]
    node.op_type = "Sigmoid"
    onnx.save(file, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["left", "right"])
def test_a_layer_that_returns_what_another_one_does_is_found_by_the_name_of_its_tensor(layer, tmp_path):
    source = export_onnx(_twins(), tmp_path / "model.onnx").path
    path = _with_another_activation(source, tmp_path / "damaged.onnx", layer)
    (result,) = check_parity(_twins(), path, runtimes=["onnxruntime[all]"]).results
    assert [each.layer for each in result.layers if each.originates_here] == [layer]
    assert {finding.layer for finding in result.findings} == {layer}
    assert result.proof is not None
    assert result.proof.holds


class _ReadElsewhere(Planted):
    """Names its layers' outputs, and reads none of what stands in the place of one."""

    def metadata(self):
        return {LAYERS_KEY: json.dumps({"first": ["first"], "second": ["second"]})}


def test_a_layer_that_a_right_input_leaves_as_it_was_is_not_blamed_for_a_wrong_one():
    x = keras.Input((5, 4), name="x")
    first, second = keras.layers.Dense(6, "tanh", name="first"), keras.layers.Dense(3, "silu", name="second")
    y = first(x)
    model = seeded(keras.Model(x, {"first": y, "second": second(y)}))

    def wrong(inputs):
        y = keras.ops.matmul(inputs["x"], first.kernel) + first.bias
        return {"first": y, "second": second(y)}

    result = diagnose_planted(model, wrong, _ReadElsewhere)
    assert [(finding.cause, finding.layer) for finding in result.findings] == [("other activation", "first")]
    assert [layer.layer for layer in result.layers if layer.originates_here] == ["first"]


def _from(begin: str) -> tuple[keras.Model, Compute]:
    """Returns a model of a skip and two layers beside it, and an artifact without names whose skip begins elsewhere."""
    x = keras.Input((8, 6), name="x")
    stem, first, second = (keras.layers.Dense(6, "tanh", name=name) for name in ("stem", "first", "second"))
    begun = stem(x)
    middle = first(begun)
    end = second(middle)
    outputs = {"begun": begun, "middle": middle, "end": end}
    joined = keras.layers.Add(name="join")([middle, end])
    model = seeded(keras.Model(x, {**outputs, "y": keras.layers.Dense(3, name="last")(joined)}))

    def wrong(inputs: Inputs) -> dict[str, np.ndarray]:
        begun = stem(inputs["x"])
        held = {"begun": begun, "middle": (middle := first(begun)), "end": second(middle)}
        return {**held, "y": model.get_layer("last")(held[begin] + held["end"])}

    return model, wrong


@pytest.mark.slow
@pytest.mark.parametrize("begin", ["begun", "end"])
def test_a_skip_that_begins_elsewhere_leaves_no_layer_out(begin: str) -> None:
    (finding,) = diagnose_planted(*_from(begin)).findings
    assert (finding.cause, finding.layer) == ("other input", "join"), finding


def test_a_layer_whose_output_has_another_size_is_not_left_out() -> None:
    x = keras.Input((6, 6, 2), name="x")
    stem = keras.layers.Conv2D(2, 1, name="stem")
    shrink, wrong = (keras.layers.DepthwiseConv2D(2, each, "same", name="shrink") for each in (1, 2))
    held = stem(x)
    last = keras.layers.GlobalAveragePooling2D(name="last")
    model = seeded(keras.Model(x, {"held": held, "y": last(shrink(held))}))

    def compute(inputs: Inputs) -> dict[str, np.ndarray]:
        held = stem(inputs["x"])
        wrong(held)
        wrong.set_weights(shrink.get_weights())
        return {"held": held, "y": last(wrong(held))}

    (finding,) = diagnose_planted(model, compute).findings
    assert (finding.cause, finding.layer) == ("other strides", "shrink"), finding
