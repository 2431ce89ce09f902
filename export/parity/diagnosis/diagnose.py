"""From a runtime that failed to where and why: the layers at fault, the proof, and the causes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.run import Run
from keras_pe.export.comparison.seconds import Budget
from keras_pe.export.model.watch.recording import is_within
from keras_pe.export.parity.diagnosis.causes import behavior, inside, values
from keras_pe.export.parity.diagnosis.causes.compiled import changed_by_runtime, compiled_otherwise, graph_optimization
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.layers import LayerTrace, trace_faults
from keras_pe.export.parity.diagnosis.other_cases import rank
from keras_pe.export.parity.diagnosis.outside import changed_layers
from keras_pe.export.parity.diagnosis.probe import Probe
from keras_pe.export.parity.diagnosis.weights import WeightComparison
from keras_pe.export.results import Cause, Finding, LayerResult, Problem, RunStatus, RuntimeResult
from keras_pe.export.runtimes.runner import Runner

Detector = Callable[[Probe], Iterable[Finding]]

# What is seen from outside explains no numbers, so the search goes on after it.
_OUTSIDE: tuple[Detector, ...] = (behavior.process_end, values.missing_and_extra, values.other_dtype)
# Before the layers: what shakes by itself seems to be at fault everywhere, and swapped outputs are nowhere inside.
_FIRST: tuple[tuple[Detector, ...], ...] = (
    (behavior.non_determinism,),
    (values.swapped_outputs, values.passed_through),
    (behavior.frozen_size,),
)
# The first stage that finds something is the last.
_LAST: tuple[tuple[Detector, ...], ...] = (
    (graph_optimization,),
    (values.half_precision,),
    (changed_by_runtime,),  # before what would blame the file
    (values.changed_outputs,),
    (changed_layers,),
    (behavior.frozen_state, behavior.batch_dependence),
    (behavior.clamped_size,),
    (compiled_otherwise,),
)
_SAID = 3  # refusals: one brings others after it
_TRIED = (
    "the weights one by one, the attributes of the layer, its masks, rounding, axes, rows and signs, state, frozen "
    "sizes and the batch"
)


def diagnose(
    run: Run, runner: Runner, reference: Reference, roles: Mapping[str, Role], budget: Budget | None = None
) -> RuntimeResult:
    """Returns the result of a runtime that failed, with the layers at fault, the proof and the causes.

    Nothing that goes wrong on the way costs the result: it is said where nothing else explains the failure.

    Args:
        run: The verdict, and what it was found from.
        runner: The runtime, still loaded.
        reference: What it is measured against.
        roles: What the inputs are for.
        budget: The time that is left, 60 seconds where it is not given.
    """
    probe = Probe(run, runner, reference, roles, budget=budget or Budget())
    trace = next(iter(probe.attempt("a look inside the artifact", _trace)), LayerTrace())
    probe = replace(probe, faults=trace.faults, others=trace.others, is_sound_inside=trace.is_sound_inside)
    findings = find_causes(probe)
    return replace(run.result, layers=_with_origins(trace.layers, findings), proof=trace.proof, findings=findings)


def _with_origins(layers: Iterable[LayerResult], findings: Sequence[Finding]) -> tuple[LayerResult, ...]:
    """Returns the layers with the fault where its cause is: those that are absent with that layer follow from it."""
    causes = {finding.layer for finding in findings if finding.absent}
    absent = {layer for finding in findings for layer in finding.absent} - {finding.layer for finding in findings}
    origins = dict.fromkeys(absent, False) | dict.fromkeys(causes, True)
    return tuple(
        replace(each, originates_here=origins.get(each.layer.partition("#")[0], each.originates_here))
        if each.differs
        else each
        for each in layers
    )


def find_causes(probe: Probe) -> tuple[Finding, ...]:
    """Returns what was found, or that the cause is not known and what was tried."""
    findings = _found(probe, _OUTSIDE)
    for stage in _FIRST:
        found = _found(probe, stage)
        if found:
            return tuple(dict.fromkeys(findings + found))
    compared = probe.attempt("the weights in the artifact", inside.compared_weights)
    weights = compared[0] if compared else WeightComparison([], frozenset())
    faults = tuple(replace(each, sound_weights=weights.sound) for each in probe.faults)
    probe = replace(probe, faults=faults, sound_weights=weights.sound)
    findings += probe.attempt("the weights", lambda probe: inside.weights_at_fault(probe, weights.faults))
    explained = {finding.layer for finding in findings if finding.layer}
    findings += probe.attempt("the layers", lambda probe: inside.layers_at_fault(probe, explained))
    for stage in _LAST:
        if findings:
            break
        findings += _found(probe, stage)
    if not findings or (probe.faults and not _is_of_all(findings)):
        layers = {layer for each in findings for layer in (each.layer, *each.absent) if layer}
        findings += _unexplained(probe, layers, bool(findings))
    return tuple(dict.fromkeys(findings))


def _found(probe: Probe, stage: Sequence[Detector]) -> list[Finding]:
    """Returns what the detectors of a stage find."""
    return [each for search in stage for each in probe.attempt(search.__name__.replace("_", " "), search)]


def _is_of_all(findings: Sequence[Finding]) -> bool:
    """Whether what was found is not of one layer, and explains whatever layer is at fault."""
    return any(finding.layer is None or finding.cause is Cause.KERAS_ITSELF for finding in findings)


def _unexplained(probe: Probe, explained: set[str], has_findings: bool) -> list[Finding]:
    """Returns a finding for each layer at fault that nothing explains, and one where there is nothing at all."""
    left = {fault.layer: fault for fault in probe.faults if not _is_explained(fault, explained)}
    if left:
        said, tried = "The layers before it agree, and what it returns does not.", f"Tried: {_TRIED}.{_notes(probe)}"
        return [
            Finding(Cause.UNKNOWN, f"{said}{probe.calls_at_fault(fault)} {tried}", layer, absent=fault.absent)
            for layer, fault in left.items()
        ]
    if has_findings:
        return []
    return [Finding(Cause.UNKNOWN, f"Nothing that was tried explains the difference: {_TRIED}.{_notes(probe)}")]


def _notes(probe: Probe) -> str:
    """Returns what could not be tried, and what there was no time for."""
    refused = f" Refused on the way: {'; '.join(probe.refusals[:_SAID])}." if probe.refusals else ""
    if not probe.not_reached:
        return refused
    rest = "; ".join(dict.fromkeys(probe.not_reached))
    return f"{refused} Not reached within {probe.budget.seconds:g} s (`diagnosis_seconds`): {rest}."


def _is_explained(fault: LayerFault, explained: set[str]) -> bool:
    """Whether a cause has been found in a layer, in one within it, or in one before it that may be at fault instead."""
    layers = (*fault.layers, *fault.absent)
    if any(is_within(each, layer) for each in explained for layer in layers):
        return True
    return any(_is_explained(each, explained) for each in fault.unsure)


def _trace(probe: Probe) -> Iterable[LayerTrace]:
    """Yields the model layer by layer in the smallest telling case that failed, if the fault can be followed."""
    failing = [row for row in probe.failing() if all(c.problem is not Problem.SHAPE for c in row[0].comparisons)]
    if not failing or probe.reference.model is None or probe.result.status != RunStatus.COMPARED:
        return
    from keras_pe.export.comparison.references.keras import KerasReference

    assert isinstance(probe.reference, KerasReference)
    _, expectation, _ = min(failing, key=lambda row: rank(row[1]))
    yield trace_faults(probe, probe.reference, expectation)
