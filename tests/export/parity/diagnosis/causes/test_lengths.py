"""Up to which length an artifact agrees: found with few questions, and asked once for the whole model."""

import math

import keras
import numpy as np

import keras_pe
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.runtimes.in_process import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec

SHORT, ENDS, LONG = 11, 40, 67


class Ending(InProcessRunner):
    """Returns what the model does up to a length, and repeats the last row from there on."""

    inputs = (TensorInfo("x", ("batch", "length", 4), "float32"),)
    version = "ending 1"

    def __init__(self, model: keras.Model) -> None:
        super().__init__(RuntimeSpec("ending", "onnx", "-", "numpy", "-"), None, None)
        self.model = model
        self.lengths: list[int] = []

    def load(self, path=None):
        pass

    def run(self, inputs):
        self.lengths.append(inputs["x"].shape[1])
        outputs = np.array(self.model(inputs["x"]))
        outputs[:, ENDS:] = outputs[:, ENDS - 1 : ENDS] + 1.0
        return {"y": outputs}


def questions(encodings: int) -> tuple[list[int], str]:
    """Returns the lengths that a runtime was asked in search of a cause, and the cause."""
    x = y = keras.Input((None, 4), name="x")
    for number in range(encodings):
        y = keras_pe.SinusoidalPositionEncoding(name="y" if number == encodings - 1 else f"inner_{number}")(y)
    model = keras.Model(x, y)
    reference, runner = KerasReference(model), Ending(model)
    rng = np.random.default_rng(0)
    cases = tuple(
        Case(f"length {length}", {"x": rng.normal(size=(3, length, 4)).astype(np.float32)}, "a length")
        for length in (SHORT, LONG)
    )
    run = run_cases(runner, runner.spec, None, reference, reference.answer(cases))
    runner.lengths.clear()
    (finding,) = diagnose(run, runner, reference, {}).findings
    return runner.lengths, f"{finding.cause}: {finding.evidence}"


def test_where_a_table_ends_is_found_by_halving_and_asked_once_for_all_layers() -> None:
    asked, cause = questions(encodings=1)
    assert cause == f"clamped table: It agrees up to length {ENDS}, and not from {ENDS + 1} on."
    halving = math.ceil(math.log2(LONG - SHORT))
    # Both sides of the end with two more draws, and once more what is said of the other side.
    assert len([length for length in asked if length not in (SHORT, LONG)]) <= halving + 5
    assert questions(encodings=3) == (asked, cause)
