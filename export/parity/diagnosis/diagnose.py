"""Diagnoses a failed runtime: the layers at fault, the proof, and the causes."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.run_cases import Run
from keras_pe.export.model.watch.code_places import is_users_module
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.model.watch.temporary_patches import tensorflow_log
from keras_pe.export.parity.diagnosis.causes import (
    behavior,
    caches,
    casts,
    layer_causes,
    states,
    values,
    weight_causes,
)
from keras_pe.export.parity.diagnosis.causes.compiled import changed_by_runtime, compiled_otherwise, graph_optimization
from keras_pe.export.parity.diagnosis.causes.delegates import faulty_delegate
from keras_pe.export.parity.diagnosis.causes.quantized_file import (
    RoundedFile,
    may_round_tensors,
    refused_scale,
    rounded_file,
)
from keras_pe.export.parity.diagnosis.causes.unknown import is_explained, unknown_findings
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.faulty_layers import LayerTrace, trace_faults
from keras_pe.export.parity.diagnosis.recorded_cases import calls_of, first_case
from keras_pe.export.parity.diagnosis.stored_constants import small_constants
from keras_pe.export.parity.diagnosis.weights import WeightComparison
from keras_pe.export.progress import Budget
from keras_pe.export.results import Cause, Comparison, Finding, LayerRecording, LayerResult, RuntimeResult
from keras_pe.export.runtimes.runner import Runner

Detector = Callable[[Probe], Iterable[Finding]]

# These detectors explain no numbers, so the search continues after them.
_OUTSIDE: tuple[Detector, ...] = (
    behavior.process_end,
    values.missing_and_extra,
    values.other_dtype,
    values.false_declaration,
)
# These come before the layers. Nondeterminism puts every layer at fault, and swapped outputs put none.
_FIRST: tuple[tuple[Detector, ...], ...] = (
    (behavior.non_determinism,),
    (casts.cast_out_of_range,),
    (casts.cast_input,),
    (faulty_delegate,),  # before the detectors that blame the file
    (caches.cache_at_fault,),  # before the states, since a deep decoder has many states and few faults of its positions
    (states.state_at_fault,),  # before the detectors of outputs, which find an exchange of two states as well
    (values.swapped_outputs, values.passed_through),
    (behavior.frozen_size,),
    (refused_scale,),
    (behavior.refused_every_case,),
)
# The search stops after the first stage that finds something.
_LAST: tuple[tuple[Detector, ...], ...] = (
    (graph_optimization,),
    (values.half_precision,),
    (changed_by_runtime,),  # before the detectors that blame the file
    (values.changed_outputs,),
    (layer_causes.changed_layers,),
    (behavior.frozen_state, behavior.batch_dependence),
    (behavior.clamped_size,),
    (behavior.refused_cases,),
    (compiled_otherwise,),
)


# TensorFlow has a page of text for each loop that a tried change breaks off.
@tensorflow_log(logging.CRITICAL)
def diagnose(
    run: Run,
    runner: Runner,
    reference: Reference,
    roles: Mapping[str, Role],
    budget: Budget | None = None,
    *,
    is_rounding: bool = False,
) -> RuntimeResult:
    """Returns the result of a failed runtime with the layers at fault, the proof and the causes.

    An error of a detector does not lose the result. The evidence names it if no cause explains the failure.

    Args:
        run: The verdict, with the data that it follows from.
        runner: The runtime, still loaded.
        reference: The reference of the differences.
        roles: The roles of the inputs.
        budget: The remaining time; 60 seconds by default.
        is_rounding: Whether rounding to an accepted precision explains the failure. Then only rounding is sought.
    """
    probe = Probe(run, runner, reference, roles, budget=budget or Budget())
    if is_rounding:
        return replace(run.result, findings=_find_rounding(probe))
    # A LiteRT file has no tensor of a layer that it folds into another, and no name that says which layers it has.
    trace, findings = (_from_outside if runner.spec.format == Format.LITERT else _inside)(probe)
    layers = _with_origins(trace, findings)
    recorded = [*probe.attempt("the record of the layer", partial(_record_layer, trace, findings)), None][0]
    recording = run.result.recording and replace(run.result.recording, layer=recorded)
    result = replace(run.result, layers=layers, proof=trace.proof, findings=findings, recording=recording)
    return _name_model(result, reference)


def _name_model(result: RuntimeResult, reference: Reference) -> RuntimeResult:
    """Returns a result in which a subclassed model, whose path is empty, has its name. Its findings have no layer."""
    if not isinstance(reference, KerasReference):
        return result
    name, recording, proof = reference.model.name, result.recording, result.proof
    if recording is not None and recording.layer is not None and not recording.layer.layer:
        recording = replace(recording, layer=replace(recording.layer, layer=name))
    return replace(
        result,
        layers=tuple(replace(each, layer=each.layer or name) for each in result.layers),
        proof=proof and replace(proof, layers=tuple(layer or name for layer in proof.layers)),
        findings=tuple(replace(each, layer=each.layer or None) for each in result.findings),
        recording=recording,
    )


def _inside(probe: Probe) -> tuple[LayerTrace, tuple[Finding, ...]]:
    """Returns the model layer by layer in the artifact, and the causes that are found with it."""
    trace = next(iter(probe.attempt("a look inside the artifact", _trace)), LayerTrace())
    seen = replace(probe, faults=trace.faults, others=trace.others, is_sound_inside=trace.is_sound_inside)
    return trace, find_causes(seen)


def _from_outside(probe: Probe) -> tuple[LayerTrace, tuple[Finding, ...]]:
    """Returns the causes that the outputs of the artifact show, or else the model layer by layer as `_inside`.

    A model with layers of a user's own begins inside, since the outputs alone name no line of their code.
    """
    users = _users_layers(probe.reference)
    trace, inside = _inside(probe) if users else (LayerTrace(), ())
    if any(each.file for each in inside):
        return trace, inside
    findings = find_causes(probe)
    unknown = any(each.cause is Cause.UNKNOWN for each in findings)
    if unknown and not users:
        trace, inside = _inside(probe)
    may_be_inside = unknown or (users and any(each.layer is None or each.layer in users for each in findings))
    is_known = all(each.cause is not Cause.UNKNOWN for each in inside)
    return (trace, inside) if may_be_inside and inside and is_known else (LayerTrace(), findings)


def _record_layer(trace: LayerTrace, findings: Sequence[Finding], probe: Probe) -> Iterator[LayerRecording]:
    """Yields the arrays of the first layer at fault; of the first layer with a cause if no fault was located."""
    expectation, reference = first_case(probe), probe.reference
    if expectation is None or not isinstance(reference, KerasReference):
        return
    fault = next((fault.through or fault for fault in trace.faults), None)
    layer = next((finding.layer for finding in findings if finding.layer), None)
    if fault is not None:
        axes = range(fault.expected.ndim) if fault.location is None else fault.location.axes
        expected, actual = (None if each is None else each.transpose(axes) for each in (fault.expected, fault.actual))
        assert expected is not None
        tensor = fault.tensor if actual is not None else None
        case, inputs = expectation.case.inputs, fault.call.inputs
        yield LayerRecording(fault.layer, case, inputs, expected, fault.tolerance, tensor, actual)
    elif layer is not None:
        calls = calls_of(probe, reference.model, expectation.case.inputs)
        call = next(call for call in calls if call.layer_path == layer)
        yield LayerRecording(layer, expectation.case.inputs, call.inputs, call.outputs[0])


def _users_layers(reference: Reference) -> set[str]:
    """Returns the paths of the layers of a user's own, with an empty path for the model itself."""
    if not isinstance(reference, KerasReference):
        return set()
    layers = [("", reference.model), *layer_paths(reference.model)]
    return {path for path, layer in layers if is_users_module(type(layer).__module__)}


def _with_origins(trace: LayerTrace, findings: Sequence[Finding]) -> tuple[LayerResult, ...]:
    """Returns the layers, with the fault at the layer of its cause.

    Layers that a finding names as absent follow from it. So do later layers that may have received its output from
    another tensor.
    """
    causes = {finding.layer for finding in findings if finding.absent}
    explained = {finding.layer for finding in findings if finding.layer is not None}
    follow = {layer for finding in findings for layer in finding.absent}
    follow |= {fault.layer for fault in trace.faults if any(is_explained(each, explained) for each in fault.unsure)}
    origins = dict.fromkeys(follow - explained, False) | dict.fromkeys(causes, True)
    return tuple(
        replace(each, originates_here=origins.get(each.layer.partition("#")[0], each.originates_here))
        if each.differs
        else each
        for each in trace.layers
    )


def find_causes(probe: Probe) -> tuple[Finding, ...]:
    """Returns the causes, or a finding of an unknown cause that lists the attempts."""
    findings = _run_stage(probe, _OUTSIDE)
    if probe.run.false_declarations and all(each.passed for each in _comparisons(probe.run)):
        return tuple(findings)  # all numbers are right
    for stage in _FIRST:
        found = _run_stage(probe, stage)
        if found:
            return tuple(dict.fromkeys(findings + found))
    if findings and not probe.has_wrong_values:
        return tuple(dict.fromkeys(findings))
    weights = _compare_weights(probe)
    constants = cache(partial(small_constants, probe))
    probe = replace(probe, sound_weights=weights.sound, constants=constants)
    rounding = _rounded_tensors(probe)
    findings = [*(finding for each in rounding for finding in each.findings), *findings]
    explains_all = any(each.explains_all for each in rounding)
    # Layers that differ by rounding are not at fault, so no other edit may explain their tensors.
    weighed = replace(probe, faults=()) if explains_all else probe
    findings += weighed.attempt("the weights", lambda probe: weight_causes.weights_at_fault(probe, weights.faults))
    if explains_all:
        return tuple(dict.fromkeys(findings))
    explained = {finding.layer for finding in findings if finding.layer is not None}
    found = probe.attempt("the layers", lambda probe: layer_causes.layers_at_fault(probe, explained))
    findings += [each for each in found if each.cause is not Cause.UNKNOWN]
    located = [each for each in found if each.cause is Cause.UNKNOWN]
    is_in_code = any(each.file for each in located)
    for stage in _LAST:
        if findings:
            break
        found = _run_stage(probe, stage)
        findings += [each for each in found if not is_in_code or each.cause is not Cause.NOT_A_NUMBER]
    # A finding without a layer concerns the whole model, and explains every layer at fault.
    is_of_all = any(each.layer is None or each.cause is Cause.KERAS_ITSELF for each in findings)
    if not is_of_all and (probe.faults or not findings):
        layers = {layer for each in findings for layer in (each.layer, *each.absent) if layer is not None}
        is_quantized = any(each.cause.is_quantized for each in findings)
        findings += unknown_findings(probe, layers, located, has_findings=bool(findings), is_quantized=is_quantized)
    return tuple(dict.fromkeys(findings))


def _find_rounding(probe: Probe) -> tuple[Finding, ...]:
    """Returns the rounded weights, tensors and outputs, without a search for other causes."""
    faults = _compare_weights(probe).faults
    found = [finding for each in _rounded_tensors(probe) for finding in each.findings]
    found += probe.attempt("the weights", lambda probe: weight_causes.weights_at_fault(probe, faults))
    return tuple(dict.fromkeys(found + _run_stage(probe, (values.other_dtype, values.half_precision))))


def _compare_weights(probe: Probe) -> WeightComparison:
    compared = probe.attempt("the weights in the artifact", weight_causes.compared_weights)
    return compared[0] if compared else WeightComparison([], frozenset())


def _rounded_tensors(probe: Probe) -> list[RoundedFile]:
    return probe.attempt("the rounding of computed tensors", rounded_file) if may_round_tensors(probe) else []


def _comparisons(run: Run) -> list[Comparison]:
    return [each for case in run.result.cases for each in case.comparisons]


def _run_stage(probe: Probe, stage: Sequence[Detector]) -> list[Finding]:
    """Returns the findings of the detectors of a stage."""
    return [each for search in stage for each in probe.attempt(search.__name__.replace("_", " "), search)]


def _trace(probe: Probe) -> Iterable[LayerTrace]:
    """Yields the trace of the model's layers in the smallest telling case that failed, if layers can be traced."""
    expectation = first_case(probe)
    if expectation is not None and isinstance(probe.reference, KerasReference):
        yield trace_faults(probe, probe.reference, expectation)
