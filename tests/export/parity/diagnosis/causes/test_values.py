"""Causes inferred from two arrays alone, since two artifacts have no model to run."""

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation, StoredReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.causes.values import half_precision, other_dtype
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.diagnose import find_causes
from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.signal.formula import timing_signal

RNG = np.random.default_rng(0)
SIGNAL = timing_signal(np.arange(20), 16)[None].astype(np.float32)
NOISE = RNG.standard_normal((2, 5, 6)).astype(np.float32)
OTHER = RNG.standard_normal((2, 5, 6)).astype(np.float32)


class Given(InProcessRunner):
    """Answers what it was given, always."""

    inputs = (TensorInfo("x", ("batch", "length"), "float32"),)
    version = "given 1"

    def __init__(self, answer):
        super().__init__(RuntimeSpec("given", "onnx", "-", "numpy", "-"), None, None)
        self.answer = answer

    def load(self, path=None, spec=None):
        pass

    def run(self, inputs):
        return self.answer


def _probe(expected, actual):
    case = Case("case", {"x": np.ones((2, 5), np.float32)}, "given")
    expectations = [Expectation(case, expected)]
    runner = Given(actual)
    reference = StoredReference("stored", case, expected)
    run = run_cases(runner, runner.spec, None, reference, expectations)
    assert not run.result.passed
    return Probe(run, runner, reference)


def _findings(expected, actual):
    return find_causes(_probe(expected, actual))


def _causes(expected, actual):
    return [finding.cause for finding in _findings(expected, actual)]


@pytest.mark.parametrize(("actual", "numbers"), [
    (SIGNAL + 0.25, {"by": 0.25}),
    (3 * NOISE, {"factor": 3.0}),
    (NOISE.transpose(1, 0, 2), {"axes": (1, 0, 2)}),
    (NOISE[:, ::-1], {"axes": "1"}),
    (timing_signal(np.arange(20) + 1, 16)[None].astype("f4"), {"axis": 1, "k": 1}),
])  # fmt: skip
def test_a_finding_keeps_the_numbers_of_the_change_that_it_was_found_with(actual, numbers):
    (finding,) = _findings({"y": SIGNAL if actual.shape == SIGNAL.shape else NOISE}, {"y": actual})
    found = {each.name: each.artifact for each in finding.parameters}
    assert found == {name: pytest.approx(n, rel=1e-5) if isinstance(n, float) else n for name, n in numbers.items()}
    assert all(each.model is None for each in finding.parameters)


@pytest.mark.parametrize(("expected", "actual", "cause"), [
    ({"y": SIGNAL}, {"y": timing_signal(np.arange(20), 16, layout="interleaved")[None].astype("f4")}, "wrong layout"),
    ({"y": SIGNAL}, {"y": timing_signal(np.arange(20) + 1, 16)[None].astype("f4")}, "start index off"),
    ({"y": SIGNAL}, {"y": timing_signal(np.arange(20) - 3, 16)[None].astype("f4")}, "start index off"),
    ({"y": NOISE}, {"y": NOISE.astype(np.float16).astype(np.float32)}, "half precision inside"),
    ({"a": NOISE, "b": OTHER}, {"a": OTHER, "b": NOISE}, "swapped outputs"),
    ({"y": NOISE}, {"y": NOISE.transpose(1, 0, 2)}, "transposed axes"),
    ({"y": NOISE}, {"y": np.where(NOISE > 1, np.nan, NOISE)}, "NaN or infinity"),
    ({"y": NOISE}, {"z": NOISE, "a": OTHER}, "renamed output"),
    ({"y": NOISE}, {"z": OTHER, "a": OTHER}, "missing output"),
    ({"y": NOISE}, {"y": NOISE, "z": OTHER}, "extra output"),
    ({"y": NOISE}, {"y": NOISE.astype(np.float16)}, "other dtype"),
    ({"y": NOISE[..., 0]}, {"y": np.ones((2, 5), np.float32)}, "input returned"),
    ({"y": NOISE}, {"y": NOISE + 0.1}, "offset values"),
    ({"y": NOISE}, {"y": OTHER}, "unknown"),
])  # fmt: skip
def test_the_cause_is_told_from_the_values(expected, actual, cause):
    assert cause in _causes(expected, actual)


@pytest.mark.parametrize(("actual", "cause"), [(2 * NOISE, "scaled values"), (-NOISE, "flipped sign")])
def test_a_renamed_output_is_recognized_by_a_change_of_all_its_values(actual, cause):
    found = _findings({"y": NOISE}, {"z": actual, "a": OTHER})
    assert [(each.cause, each.output) for each in found] == [
        ("renamed output", "y"),
        (cause, "y"),
        ("extra output", "a"),
    ]


def test_an_output_of_16_bits_has_one_finding():
    probe = _probe({"y": NOISE}, {"y": NOISE.astype(np.float16)})
    assert [each.cause for each in (*other_dtype(probe), *half_precision(probe))] == ["other dtype"]


def test_a_difference_of_rounding_size_is_not_mistaken_for_a_cause():
    assert _causes({"y": SIGNAL}, {"y": SIGNAL + np.float32(1e-3) * np.sin(np.arange(16, dtype="f4"))}) == ["unknown"]
