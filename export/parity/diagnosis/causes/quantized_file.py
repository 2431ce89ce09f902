"""Detects that an artifact differs by rounding to integers, and the faults of the scales of its quantizer."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.run_cases import compared_again, have_passed
from keras_pe.export.comparison.tolerance import accepting
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.parity.diagnosis.calibration.range_faults import find_calibration_faults
from keras_pe.export.parity.diagnosis.calibration.rounding_costs import RoundingMeasurement, measure_rounding
from keras_pe.export.parity.diagnosis.calibration.weight_faults import find_weight_faults
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.recorded_cases import calls_of, rank
from keras_pe.export.results import Allowance, CaseResult, CaseStatus, Cause, Finding, RunStatus
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CASES = 6
_SAME = 0.3  # largest part of a change that another runtime's kernels may leave unexplained
_WEIGHTS = 0.1  # least part of the squared difference that the weights leave, if their scales are at fault
_SAID = 3
_POSITION_WORDS = ("position", "rotary", "rope")


@dataclass(frozen=True)
class RoundedFile:
    """What the rounding of computed tensors explains of a difference.

    Attributes:
        findings: The faults of calibration, or else that the artifact is quantized.
        explains_all: Whether the artifact differs by rounding alone.
    """

    findings: tuple[Finding, ...]
    explains_all: bool


def rounded_file(probe: Probe) -> Iterator[RoundedFile]:
    """Yields what rounding explains, if the artifact is an ONNX file that rounds computed tensors to integers."""
    reference, result = probe.reference, probe.run.result
    if not isinstance(reference, KerasReference) or result.status is not RunStatus.COMPARED:
        return
    if result.format != Format.ONNX or not result.artifact:
        return
    rows = _telling_rows(probe)
    if not rows:
        return
    expectations = [expectation for expectation, _ in rows]
    inputs = [probe.runner.names.to_artifact(each.case.inputs) for each in expectations]
    calls = calls_of(reference, reference.model, expectations[0].case.inputs)
    outputs = [array for call in calls for array in call.outputs]
    path = Path(result.artifact)
    try:
        measured = measure_rounding(path, inputs, outputs)
    except ValueError:  # the file rounds nothing that it computes, or has operators without a form in floats
        return
    floats = [probe.runner.names.to_model(each) for each in measured.floats]
    rounded = [probe.runner.names.to_model(each) for each in measured.rounded]
    total = _distance(expectations, [answer for _, answer in rows])
    left = _distance(expectations, floats)
    is_same = _apart([answer for _, answer in rows], rounded) <= _SAME**2 * total
    layers = _position_layers(reference)
    found = find_calibration_faults(measured, layers) if is_same else ()
    if left >= _WEIGHTS * total:
        found = (*found, *find_weight_faults(path))
    explains_all = is_same and (bool(found) or _is_right(reference, expectations, floats))
    if explains_all:
        found = (*found, _as_finding(measured))
    if found:
        yield RoundedFile(found, explains_all)


def _telling_rows(probe: Probe) -> list[tuple[Expectation, Arrays]]:
    """Returns answered cases with usual values, those with several positions first."""
    rows = [
        (expectation, answer)
        for case, expectation, answer in zip(
            probe.run.result.cases, probe.run.expectations, probe.run.answers, strict=False
        )
        if case.status is not CaseStatus.SKIPPED and expectation.outputs and answer
        if not expectation.case.repeats and not rank(expectation)[0]
        if all(array.size for array in (*expectation.case.inputs.values(), *expectation.outputs.values()))
    ]
    rows.sort(key=lambda row: rank(row[0]))
    return rows[:_MOST_CASES]


def _is_right(reference: KerasReference, expectations: list[Expectation], floats: list[Arrays]) -> bool:
    """Whether the file without rounding of computed tensors is within the rounding of its weights."""
    law = accepting(Allowance(precision="int8"))
    failed = [CaseResult(each.case.name, CaseStatus.FAILED) for each in expectations]
    compared = compared_again(reference, expectations, floats, failed, range(len(failed)), law)
    return have_passed(compared)


def _distance(expectations: list[Expectation], answers: list[Arrays]) -> float:
    """Returns the sum of squared differences from the model, each output relative to its values."""
    return _apart([each.outputs or {} for each in expectations], answers)


def _apart(expected: list[Arrays], answers: list[Arrays]) -> float:
    total = 0.0
    for outputs, answer in zip(expected, answers, strict=True):
        for name, array in outputs.items():
            other = answer.get(name)
            if array.dtype.kind == "f" and other is not None and other.shape == array.shape and array.size:
                size = float(np.mean(np.square(array, dtype=np.float64))) or 1.0
                total += float(np.mean(np.square(array.astype(np.float64) - other))) / size
    return total


def _position_layers(reference: KerasReference) -> list[str]:
    """Returns the layers of positions: those of this package, and those that are named after positions."""
    return [
        path
        for path, layer in layer_paths(reference.model)
        if type(layer).__module__.startswith("keras_pe.layers")
        or any(word in path.rpartition("/")[2].lower() for word in _POSITION_WORDS)
    ]


def _as_finding(measured: RoundingMeasurement) -> Finding:
    """Returns the finding that a file is quantized, with the layers whose rounding costs most."""
    shares: dict[str, float] = {}
    nodes: dict[str, list[str]] = {}
    for each in measured.costs:
        shares[each.name] = shares.get(each.name, 0.0) + each.share
        nodes.setdefault(each.name, []).append(each.tensor.node)
    most = sorted(shares, key=lambda name: -shares[name])[:_SAID]
    dtypes = sorted({each.tensor.dtype for each in measured.costs})
    said = ", ".join(f"{name!r} {shares[name]:.0%}" for name in most)
    text = (
        f"Rounding of {len(measured.costs)} computed tensors to {' and '.join(dtypes)} explains the difference. Layers "
        f"with the largest shares: {said}. The option `precision='int8'` accepts rounding."
    )
    return Finding(Cause.QUANTIZED_INT8, text)

