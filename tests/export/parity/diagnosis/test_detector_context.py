"""Runs in search of a cause, and reports of refused runs."""

import keras
import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec

INPUTS = {"x": np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)}
CASE = Case("case", INPUTS, "given")


class Random(InProcessRunner):
    """Returns values of no model, and can be looked into or asked for weights no more."""

    inputs = (TensorInfo("x", ("batch", 4), "float32"),)
    version = "random 1"
    capabilities = frozenset({"intermediates", "weights"})

    def __init__(self) -> None:
        super().__init__(RuntimeSpec("random", "onnx", "-", "numpy", "-"), None, None)

    def load(self, path=None, spec=None):
        pass

    def run(self, inputs):
        return {"y": np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)}

    def intermediates(self, inputs, replaced):
        raise RuntimeRefusedError("no room for what is inside")

    def weights(self):
        raise RuntimeRefusedError("nor for the weights")


def test_refusals_of_the_runtime_are_reported_if_nothing_explains_the_difference() -> None:
    x = keras.Input((4,), name="x")
    reference = KerasReference(keras.Model(x, keras.layers.Dense(3, name="y")(x)))
    runner = Random()
    run = run_cases(runner, runner.spec, None, reference, reference.answer((CASE,)))
    (finding,) = diagnose(run, runner, reference, {}).findings
    assert finding.cause == "unknown"
    assert "a look inside the artifact (no room for what is inside)" in finding.evidence
    assert "the weights in the artifact (nor for the weights)" in finding.evidence


def test_a_reference_says_why_it_refuses() -> None:
    x = keras.Input((4,), name="x")
    reference = KerasReference(keras.Model(x, keras.layers.Dense(3, name="y")(x)))
    with pytest.raises(RuntimeRefusedError, match=r"ValueError: .* expected shape=\(None, 4\), found shape=\(2, 5\)"):
        reference.expect({"x": np.zeros((2, 5), np.float32)})
