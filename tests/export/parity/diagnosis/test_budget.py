"""A diagnosis ends in time and lists omitted trials, and an error in it does not affect the verdict."""

import itertools
from collections.abc import Callable
from functools import partial

import keras
import numpy as np
import pytest

from keras_pe.export import check_dataset, check_parity, progress, replay_bundle
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.progress import Budget
from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec
from tests.raised import about

RNG = np.random.default_rng(0)


class Noisy(InProcessRunner):
    """Returns values of no model for a model of one layer, and lets that layer's output be replaced."""

    version = "noisy 1"
    capabilities = frozenset({"intermediates"})

    def __init__(self, shape, outputs) -> None:
        super().__init__(RuntimeSpec("noisy", "onnx", "-", "numpy", "-"), None, None)
        self.inputs = (TensorInfo("x", ("batch", *shape[1:]), "float32"),)
        self.outputs = outputs

    def load(self, path=None, spec=None):
        pass

    def run(self, inputs):
        return {"y": self.outputs}

    def intermediates(self, inputs, replaced):
        return {"y": self.outputs, **replaced}


class Broken(Noisy):
    """Ends every look inside with an error of no known kind."""

    def intermediates(self, inputs, replaced):
        raise ZeroDivisionError("the inside of this graph cannot be run")

    def weights(self):
        raise KeyError("the weights neither")


class Undescribed(keras.layers.Layer):
    """A layer that cannot be made again."""

    def call(self, x):
        return 2.0 * x

    def get_config(self):
        raise NotImplementedError("no configuration")


def _diagnose_noise(layer, shape, runner_class=Noisy, budget=None, tell=None):
    """Returns the diagnosis of a runtime that returns noise in the place of one layer's output."""
    x = keras.Input(shape[1:], name="x")
    reference = KerasReference(keras.Model(x, layer(x)))
    case = Case("case", {"x": RNG.normal(size=shape).astype(np.float32)}, "given")
    expectations = reference.answer((case,))
    expected = expectations[0].outputs["y"]
    runner = runner_class(shape, RNG.normal(size=expected.shape).astype(np.float32))
    run = run_cases(runner, runner.spec, None, reference, expectations)
    result = diagnose(run, runner, reference, {}, budget)
    assert result.cases == run.result.cases
    assert not result.passed
    return result


def test_a_search_ends_when_its_time_is_over_and_says_what_it_did_not_get_to(monkeypatch) -> None:
    asked = itertools.count()
    monkeypatch.setattr(progress, "perf_counter", lambda: float(next(asked)))
    told: list[str] = []
    # A second goes by between two looks at the clock, and it is looked at before each call of a layer.
    result = _diagnose_noise(keras.layers.Dense(3, name="y"), (2, 4), budget=Budget(33.0, told.append))
    (finding,) = result.findings
    assert (finding.cause, finding.layer) == ("unknown", "y")
    assert "Not reached within 33 s (`diagnosis_seconds`)" in finding.evidence
    assert "other weights" in finding.evidence
    assert next(asked) < 60, "what comes after it asks once each"
    assert "other attributes of 'y'" in told


@pytest.mark.slow
def test_a_recurrence_of_a_thousand_steps_is_searched_in_time() -> None:
    layer = keras.layers.LSTM(8, return_sequences=True, name="y")
    result = _diagnose_noise(layer, (1, 1024, 4), budget=Budget(5.0))
    (finding,) = result.findings
    assert finding.cause == "unknown"
    assert "Not reached within 5 s" in finding.evidence


def test_a_layer_that_cannot_be_described_and_a_graph_that_cannot_be_read_cost_no_verdict() -> None:
    (finding,) = _diagnose_noise(Undescribed(name="y"), (2, 4)).findings
    assert (finding.cause, finding.layer) == ("unknown", "y")
    assert "changes of the layer 'y' (no configuration)" in finding.evidence
    (finding,) = _diagnose_noise(keras.layers.Dense(3, name="y"), (2, 4), Broken).findings
    assert finding.cause == "unknown"
    assert "a look inside the artifact (the inside of this graph cannot be run)" in finding.evidence
    assert "the weights in the artifact ('the weights neither')" in finding.evidence


@pytest.mark.parametrize(
    "check",
    [
        partial(check_parity, "model.keras", "model.onnx"),
        partial(check_dataset, "model.keras", "model.onnx", "data.npz"),
        partial(replay_bundle, "bundle.npz"),
    ],
)
def test_every_check_refuses_the_same_seconds_before_it_opens_a_file(check: Callable[..., object]) -> None:
    for seconds in (-1.0, float("nan"), None):
        with pytest.raises(ValueError, check=about("diagnosis_seconds")):
            check(diagnosis_seconds=seconds)
    for seconds in (0, -1.0, float("nan"), "5"):
        with pytest.raises(ValueError, check=about("timeout")):
            check(timeout=seconds)
