"""The search finds the sizes at which an artifact agrees, for any dynamic dimension and once for the whole model."""

import math

import keras
import numpy as np
import pytest

import keras_pe
from keras_pe.export import check_parity, export_onnx
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation, StoredReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec
from tests.export.parity.diagnosis import planted

SHORT, ENDS, LONG = 11, 40, 67
NAMES = ("length", "time", "seq", "sequence_length", "unk__7", "x_1")


class Ending(InProcessRunner):
    """Returns what a function does up to a length, and something else from there on."""

    version = "ending 1"

    def __init__(self, function, beyond, dimensions=("batch", "length")) -> None:
        super().__init__(RuntimeSpec("ending", "onnx", "-", "numpy", "-"), None, None)
        self.inputs = (TensorInfo("x", (*dimensions, 4), "float32"),)
        self.function, self.beyond = function, beyond
        self.lengths: list[int] = []

    def load(self, path=None, spec=None):
        pass

    def run(self, inputs):
        self.lengths.append(inputs["x"].shape[1])
        return {"y": self.beyond(self.function(inputs["x"]))}


def repeats(outputs):
    """Repeats the last row that is right."""
    return np.concatenate([outputs[:, :ENDS], 1.0 + 0 * outputs[:, ENDS:]], 1)


def refuses(outputs):
    if outputs.shape[1] > ENDS:
        raise RuntimeRefusedError(f"no more than {ENDS} steps")
    return outputs


def takes_seven_alone(outputs):
    if outputs.shape[1] != 7:
        raise RuntimeRefusedError(f"cannot broadcast 7 with {outputs.shape[1]}")
    return outputs


class Computed(StoredReference):
    """A function of one input, whose dimensions have any names."""

    def __init__(self, function, dimensions, ranges) -> None:
        super().__init__("computed", Case("none", {}, ""), {})
        self.inputs = (TensorInfo("x", (*dimensions, 4), "float32"),)
        self.dimensions = {name: Dimension(Kind.LENGTH, name, own) for name, own in ranges.items()}
        self.function = function

    def answer(self, cases):
        return tuple(Expectation(case, self.expect(case.inputs)) for case in cases)

    def expect(self, inputs):
        return {"y": self.function(inputs["x"])}


def _cases(*lengths):
    rng = np.random.default_rng(0)
    draw = (rng.normal(size=(3, length, 4)).astype(np.float32) for length in lengths)
    return tuple(Case(f"case {number}", {"x": x}, "a length") for number, x in enumerate(draw))


def diagnose_sizes(beyond, dimensions, ranges=None):
    """Returns the causes and sizes in the diagnosis of a runtime that is right only at some sizes."""
    reference = Computed(np.sin, dimensions, ranges or {})
    runner = Ending(np.sin, beyond, dimensions)
    run = run_cases(runner, runner.spec, None, reference, reference.answer(_cases(SHORT, LONG)))
    return [(each.cause, _last_size(each)) for each in diagnose(run, runner, reference, {}).findings]


def _last_size(finding):
    """Returns the dimension of a finding, with the only or the last size at which the artifact agrees."""
    return [(each.name, each.artifact) for each in finding.parameters]


def test_a_size_at_which_an_artifact_ends_or_that_it_takes_alone_is_told_of_a_dimension_of_any_name() -> None:
    for name in NAMES:
        for dimensions in (("batch", name), (f"{name}_rows", name)):
            assert diagnose_sizes(repeats, dimensions) == [("clamped table", [(name, ENDS)])]
            assert diagnose_sizes(refuses, dimensions) == [("length limit", [(name, ENDS)])]
            assert diagnose_sizes(takes_seven_alone, dimensions) == [("frozen length", [(name, 7)])]


def test_only_sizes_that_the_model_takes_are_tried() -> None:
    threes = {"time": SizeRange(least=2, step=3)}  # 2, 5, ..., 11, ..., 38, 41, ...
    assert diagnose_sizes(repeats, ("batch", "time"), threes) == [("clamped table", [("time", 38)])]


def questions(encodings: int) -> tuple[list[int], tuple[str, list[tuple[str, int]]]]:
    """Returns the lengths that a runtime ran in search of a cause, and the cause."""
    x = y = keras.Input((None, 4), name="x")
    for number in range(encodings):
        y = keras_pe.SinusoidalPositionEncoding(name="y" if number == encodings - 1 else f"inner_{number}")(y)
    model = keras.Model(x, y)
    reference, runner = KerasReference(model), Ending(lambda array: np.array(model(array)), repeats)
    run = run_cases(runner, runner.spec, None, reference, reference.answer(_cases(SHORT, LONG)))
    runner.lengths.clear()
    (finding,) = diagnose(run, runner, reference, {}).findings
    return runner.lengths, (finding.cause, _last_size(finding))


@pytest.mark.slow
def test_the_end_of_a_table_is_found_by_bisection_once_for_all_layers() -> None:
    asked, cause = questions(encodings=1)
    assert cause == ("clamped table", [("length", ENDS)])
    halving = math.ceil(math.log2(LONG - SHORT))
    # Two more draws run on both sides of the end, and one more on the other side for the report.
    assert len([length for length in asked if length not in (SHORT, LONG)]) <= halving + 5
    assert questions(encodings=3) == (asked, cause)


@pytest.mark.slow
def test_a_layer_of_another_stride_is_no_table_that_ends(tmp_path):
    def pooling_model(strides):
        x = keras.Input((None, 4), name="x")
        return keras.Model(x, keras.layers.AveragePooling1D(2, strides, padding="same", name="pool")(x))

    artifact = export_onnx(pooling_model(3), tmp_path / "model.onnx")
    (result,) = check_parity(pooling_model(2), artifact, runtimes="onnxruntime[all]").results
    assert not {"clamped table", "length limit"} & {finding.cause for finding in result.findings}
    assert {finding.layer for finding in result.findings} == {"pool"}


def test_a_size_that_the_model_itself_refuses_is_no_end_of_a_table():
    class Refusing(keras.layers.Layer):
        def call(self, x):
            if x.shape[0] is not None and x.shape[0] >= 8:
                raise ValueError("at most 7")
            return keras.ops.tanh(x)

        def compute_output_shape(self, shape):
            return shape

    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, {"y": Refusing(name="refuse")(x)})

    def ends(inputs):
        x = inputs["x"]
        return np.tanh(x) + (x.shape[1] > 12) * np.sin(40 * x)

    assert "batch" not in {
        name for each in planted.findings(model, ends, planted.Closed) for name, _ in _last_size(each)
    }
