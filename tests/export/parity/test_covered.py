"""An artifact is looked into once, and each of its runtimes keeps what was found of it."""

import dataclasses

import numpy as np
import pytest

from keras_pe.export import Cause, Finding, RuntimeResult, RuntimeSpec, StoredWeights
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import StoredReference
from keras_pe.export.parity.covered import with_coverage
from keras_pe.export.results import RunStatus
from keras_pe.export.runtimes.runner import InProcessRunner

ROUNDED = (Finding(Cause.ROUNDED_VALUES, "to float16"),)
DAMAGED = (Finding(Cause.CHANGED_VALUES, "in the last row"),)
STRICT = RuntimeResult("m.onnx", "onnx", "onnxruntime[disabled]", True, RunStatus.COMPARED)
ACCEPTED = dataclasses.replace(STRICT, runtime="onnxruntime[all]", is_accepted=True, findings=ROUNDED)
WEIGHTS = StoredWeights(2, 2, 64, 64)


@pytest.mark.parametrize(("first", "second"), [(STRICT, ACCEPTED), (ACCEPTED, STRICT)])
@pytest.mark.parametrize("faults", [(), DAMAGED])
def test_what_is_accepted_in_one_runtime_is_said_of_that_alone_and_a_damaged_weight_of_all(
    first: RuntimeResult, second: RuntimeResult, faults: tuple[Finding, ...]
) -> None:
    looked_into = dataclasses.replace(first, weights=WEIGHTS, passed=not faults, findings=faults or first.findings)
    runner = InProcessRunner(RuntimeSpec("none", "onnx", "no:where", "none", ""), None, None)
    reference = StoredReference("stored", Case("one", {"x": np.ones(1)}, ""), {})
    found = with_coverage(second, runner, reference, (), [looked_into])
    assert (found.weights, found.passed, found.findings) == (WEIGHTS, not faults, faults or second.findings)
