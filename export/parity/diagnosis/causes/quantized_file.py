"""Detects that an artifact differs by rounding to integers, and the faults of the scales of its quantizer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_file import read_whole
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.quantized_tensors import read_quantization
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.run_cases import compared_again, have_passed
from keras_pe.export.comparison.tolerance import accepting
from keras_pe.export.model.watch.layer_paths import is_within, layer_paths
from keras_pe.export.parity.diagnosis.calibration.range_faults import TINY, find_calibration_faults
from keras_pe.export.parity.diagnosis.calibration.rounding_costs import (
    RoundingMeasurement,
    measure_rounding,
    squared_change,
)
from keras_pe.export.parity.diagnosis.calibration.weight_faults import find_weight_faults
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.recorded_cases import calls_of, rank
from keras_pe.export.results import Allowance, CaseResult, CaseStatus, Cause, Finding, OtherValue, RunStatus
from keras_pe.export.runtimes.float_twin import NothingRoundedError
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CASES = 6
_SAME = 0.1  # largest part of the squared difference that the kernels of a runtime may leave unexplained
_FUSED = 4.0  # largest squared change by the kernels of a runtime, in those of rounding
_WEIGHTS = 0.1  # least part of the squared difference that the weights leave, if their scales are at fault
_MOST = 0.9  # share of the change that faults explain, beyond which the rounding of other tensors is not a cause
_SAID = 3
_ADDED = "_quant"  # suffix by ONNX Runtime of a node that computes with integers
_OPTIONS = {Format.ONNX: "nodes_to_exclude", Format.LITERT: "no_quantize"}
_POSITION_WORDS = ("position", "rotary", "rope")


@dataclass(frozen=True)
class RoundedFile:
    """The causes that the rounding of computed tensors explains.

    Attributes:
        findings: The faults of calibration, or else that the artifact is quantized.
        explains_all: Whether the artifact differs by rounding alone.
    """

    findings: tuple[Finding, ...]
    explains_all: bool


def may_round_tensors(probe: Probe) -> bool:
    """Whether the artifact is an ONNX or LiteRT file that was compared with a Keras model."""
    result = probe.run.result
    is_compared = isinstance(probe.reference, KerasReference) and result.status is RunStatus.COMPARED
    return is_compared and result.format in _OPTIONS and bool(result.artifact)


def refused_scale(probe: Probe) -> Iterator[Finding]:
    """Detects a scale below what runtimes multiply by, in a file whose every case the runtime refuses."""
    result = probe.run.result
    if not result.artifact or any(answer is not None for answer in probe.run.answers):
        return
    layers = _litert_layers(probe)
    for each in read_quantization(read_artifact(Path(result.artifact))):
        if each.steps is not None and 0 < each.steps[0] < TINY:
            text = f"The runtime refuses the file. The scale of tensor {each.name!r} is {each.steps[0]:.1e}."
            values = (OtherValue("scale", None, each.steps[0]),)
            yield Finding(Cause.TINY_SCALE, text, layers.get(each.name, each.layer) or None, parameters=values)


def _litert_layers(probe: Probe) -> Mapping[str, str]:
    """Returns the model's layer of each computed tensor of a LiteRT file, by name; empty for another file."""
    reference, path = probe.reference, Path(probe.run.result.artifact)
    if not isinstance(reference, KerasReference) or probe.run.result.format != Format.LITERT:
        return {}
    from keras_pe.export.runtimes.litert_layers import operator_layers

    operators = read_operators(read_whole(path))
    layers = operator_layers(operators, [name for name, _ in layer_paths(reference.model)])
    return {
        tensor.name.partition(";")[0]: layer
        for operator, layer in zip(operators, layers, strict=True)
        for tensor in operator.outputs
    }


def rounded_file(probe: Probe) -> Iterator[RoundedFile]:
    """Yields what rounding explains, if a file rounds computed tensors to integers."""
    reference = probe.reference
    assert isinstance(reference, KerasReference)
    rows = _telling_rows(probe)
    if not rows:
        return
    expectations = [expectation for expectation, _ in rows]
    inputs = [probe.runner.names.to_artifact(each.case.inputs) for each in expectations]
    calls = calls_of(probe, reference.model, expectations[0].case.inputs)
    outputs = [array for call in calls for array in call.outputs]
    path, layers = Path(probe.run.result.artifact), [name for name, _ in layer_paths(reference.model)]
    positions = _position_layers(reference)
    try:
        measured = measure_rounding(path, inputs, outputs, layers)
    except NothingRoundedError:
        if found := _weight_faults(path, layers, positions):
            yield RoundedFile(found, explains_all=False)
        return
    except ValueError:  # the file has operators without a form in floats
        return
    floats = [probe.runner.names.to_model(each) for each in measured.floats]
    rounded = [probe.runner.names.to_model(each) for each in measured.rounded]
    expected, answers = [each.outputs or {} for each in expectations], [answer for _, answer in rows]
    total, left = _total_change(expected, answers), _total_change(expected, floats)
    # Fused kernels round some values to the next step. A fault of the runtime changes more than rounding itself does.
    is_same = _total_change(answers, rounded) <= max(_FUSED * _total_change(floats, rounded), _SAME * total)
    found = find_calibration_faults(measured, list(positions)) if is_same else ()
    share = sum(each.share for each in measured.costs if any(finding.layer == each.name for finding in found))
    if left >= _WEIGHTS * total and (of_weights := _weight_faults(path, layers, positions)):
        found, share = (*of_weights, *found), max(share, left / total)
    explains_all = is_same and (bool(found) or _is_right(reference, expectations, floats))
    if explains_all and share < _MOST:
        found = (*found, _quantized_finding(measured, _OPTIONS[Format(probe.run.result.format)], is_sound=not found))
    if found:
        yield RoundedFile(found, explains_all)


def _telling_rows(probe: Probe) -> list[tuple[Expectation, Arrays]]:
    """Returns answered cases with usual values, those with several positions first."""
    rows = [
        (expectation, answer)
        for case, expectation, answer in probe.rows
        if case.status is not CaseStatus.SKIPPED and expectation.outputs and answer
        if not expectation.case.repeats and not rank(expectation)[0]
        if all(array.size for array in (*expectation.case.inputs.values(), *expectation.outputs.values()))
    ]
    rows.sort(key=lambda row: rank(row[0]))
    return rows[:_MOST_CASES]


def _is_right(reference: KerasReference, expectations: list[Expectation], floats: list[Arrays]) -> bool:
    """Whether the file without rounding of computed tensors is within the rounding of its weights."""
    policy = accepting(Allowance(precision="int8"))
    failed = [CaseResult(each.case.name, CaseStatus.FAILED) for each in expectations]
    compared = compared_again(reference, expectations, floats, failed, range(len(failed)), policy)
    return have_passed(compared)


def _total_change(expected: Iterable[Arrays], answers: Iterable[Arrays]) -> float:
    """Returns the sum of squared changes of all cases."""
    return sum(squared_change(*pair) for pair in zip(expected, answers, strict=True))


def _weight_faults(path: Path, layers: Iterable[str], positions: Mapping[str, bool]) -> tuple[Finding, ...]:
    """Returns the faults of weights. The cause of a learned table of positions is "coarse positions".

    A table that a layer computes has small channels by its formula, in a sound file too.
    """
    found = []
    for each in find_weight_faults(path, layers):
        own = next((position for position in positions if is_within(each.layer or "", position)), None)
        if own is None:
            found.append(each)
        elif positions[own]:
            found.append(replace(each, cause=Cause.COARSE_POSITIONS, layer=own))
    return tuple(found)


def _position_layers(reference: KerasReference) -> dict[str, bool]:
    """Returns whether each layer of positions has weights: layers of this package, or with names of positions."""
    return {
        path: bool(layer.weights)
        for path, layer in layer_paths(reference.model)
        if type(layer).__module__.startswith("keras_pe.layers")
        or any(word in path.rpartition("/")[2].lower() for word in _POSITION_WORDS)
    }


def _quantized_finding(measured: RoundingMeasurement, option: str, *, is_sound: bool) -> Finding:
    """Returns the finding that a file is quantized, with the layers whose rounding costs most.

    Args:
        measured: The rounded tensors.
        option: The option of the quantizer that takes the names of operators to leave in float.
        is_sound: Whether no range or scale is at fault, so that the differences are those of rounding.
    """
    shares: dict[str, float] = {}
    for each in measured.costs:
        shares[each.name] = shares.get(each.name, 0.0) + each.share
    most = sorted(shares, key=lambda name: -shares[name])[:_SAID]
    dtypes = sorted({each.tensor.dtype for each in measured.costs})
    description = ", ".join(f"{name!r} {shares[name]:.0%}" for name in most)
    excluded = dict.fromkeys(each.tensor.node for each in measured.costs if each.name == most[0] and each.tensor.node)
    nodes = [node.removesuffix(_ADDED) for node in excluded]
    text = (
        f"Rounding of {len(measured.costs)} computed tensors to {' and '.join(dtypes)} explains the difference. Layers "
        f"with the largest shares: {description}."
    )
    text += f" To leave the first in float: {option}={nodes}." if nodes else ""
    text += " The option `precision='int8'` accepts rounding." if is_sound else ""
    values = tuple(OtherValue(name, None, shares[name]) for name in most)
    return Finding(Cause.QUANTIZED_INT8, text, parameters=values)
