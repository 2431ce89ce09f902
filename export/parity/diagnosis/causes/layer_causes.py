"""Finds the causes of layers at fault: changed attributes, inputs, outputs, or lines of their code."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.code_places import is_users_module
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.layer_paths import is_within
from keras_pe.export.parity.diagnosis.causes.compiled import layer_compiled_otherwise
from keras_pe.export.parity.diagnosis.causes.user_code import code_before_at_fault, operations_at_fault
from keras_pe.export.parity.diagnosis.code_findings import Inside
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.edit_search import explain
from keras_pe.export.parity.diagnosis.explanation import Explanation, without_line
from keras_pe.export.parity.diagnosis.hidden_tensors import OutsideView
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.recorded_cases import content_key, telling_case
from keras_pe.export.parity.diagnosis.relations import is_number, is_short
from keras_pe.export.parity.diagnosis.sites import Seen, sites_seen
from keras_pe.export.parity.diagnosis.sites.attributes import other_attributes
from keras_pe.export.parity.diagnosis.sites.inside_statements import OTHER_EXPRESSION
from keras_pe.export.parity.diagnosis.sites.output_operations import other_operations
from keras_pe.export.parity.diagnosis.sites.output_values import rounded_inside
from keras_pe.export.progress import OutOfTimeError
from keras_pe.export.results import HALF, Cause, Finding

_OF_INPUTS = {
    *(Cause.OTHER_INPUT, Cause.EXCHANGED_INPUTS, Cause.REPEATED_ROW, Cause.SCALED_INPUT, Cause.REVERSED_INPUT),
    *(Cause.CLIPPED_INPUT, Cause.SHIFTED_INPUT, Cause.REORDERED_INPUT, Cause.OPERATION_LEFT_OUT),
}


def layers_at_fault(probe: Probe, explained: set[str]) -> Iterator[Finding]:
    """Yields the causes of each layer at fault that no weight explains, one for each layer.

    A wrong input of a shared layer also explains the layers that use its output in the same call.
    """
    done, found = set[str](), list[Finding]()
    after_wrong_input = set[bytes]()
    for fault in probe.faults:
        if any(is_in_any(layer, fault.layers) for layer in explained | done):
            continue
        try:
            causes = _explain(fault, probe)
        except OutOfTimeError:
            probe.not_reached.append(f"the layers from {fault.layer!r} on")
            break
        if not causes:
            continue
        finding, *more = causes
        if finding.layer in explained | done:
            continue
        if found and is_moved_factor(finding, fault, probe):
            found[-1] = replace(found[-1], absent=(*found[-1].absent, fault.layer))
            continue
        follows = any(content_key(array) in after_wrong_input for array in fault.call.inputs)
        if follows and finding.cause in _OF_INPUTS:
            found[-1] = replace(found[-1], absent=(*found[-1].absent, fault.layer))
            continue
        done |= {fault.layer, finding.layer or fault.layer, *(finding.absent if finding.file else ())}
        calls = probe.calls_at_fault(fault) if finding.layer == fault.layer else ""
        follow = _following(fault, probe.faults) if finding.cause in _OF_INPUTS else []
        layers = list(dict.fromkeys(each.layer for each in follow))
        done |= set(layers)
        after_wrong_input = {content_key(each.expected) for each in (fault, *follow)} if follow else set()
        container = fault.layer.rpartition("/")[0]
        if layers and container and all(is_within(each, container) for each in layers):
            finding, layers = replace(finding, layer=container), [fault.layer, *layers]
        found.append(replace(finding, evidence=finding.evidence + calls, absent=(*finding.absent, *layers)))
        found += more
    yield from found


def is_moved_factor(finding: Finding, fault: LayerFault, probe: Probe) -> bool:
    """Whether a converter may have moved a factor from the code of a layer at fault into the weights of this layer.

    LiteRT's converter does. The tensor between the layers then lacks the factor, and Keras' output does not.
    """
    before = {layer for each in probe.faults if each is not fault for layer in each.layers}
    follows = any(is_in_any(each, before) for each in fault.around.sources)
    return follows and finding.cause is Cause.SCALED_VALUES and probe.runner.spec.format == Format.LITERT


def _following(fault: LayerFault, faults: Sequence[LayerFault]) -> list[LayerFault]:
    """Returns the other shared layers that are wrong in the same call, or in the same shared model."""
    if len(fault.around.calls) < 2:
        return []
    number, container = fault.call.path.partition("#")[2], fault.layer.rpartition("/")[0]
    others = (each for each in faults if each.layer != fault.layer and len(each.around.calls) > 1)
    return [
        each
        for each in others
        if each.call.path.partition("#")[2] == number or (container and is_within(each.layer, container))
    ]


def _explain(fault: LayerFault, probe: Probe) -> list[Finding]:
    """Returns the operations in a user's code that explain a layer's output, or else the cause of the whole layer.

    An attribute of the layer that also explains the output takes precedence over an operation that computes with it. So
    does a layer that Keras compiles otherwise. The code of the enclosing layer comes first if it gives a wrong input or
    number, or if one change does not explain all calls.
    """
    before = cache(partial(code_before_at_fault, probe, fault))
    is_partial = bool(is_users_module(type(fault.call.layer).__module__) and probe.some_wrong_calls(fault))
    if is_partial and before().is_exact:
        return list(before().findings)
    inside = operations_at_fault(probe, fault)
    takes_number = any(map(is_number, (*fault.call.arguments, *fault.call.keywords.values())))
    if (takes_number or not inside.is_of_all) and before().is_exact:
        return _unless_inside(before().findings, inside)
    try:
        return _explain_beside(fault, probe, inside, before, is_partial=is_partial)
    except OutOfTimeError:
        if not inside.findings:
            raise
        probe.not_reached.append(f"the whole of {fault.layer!r}")
        return list(inside.findings)


def _unless_inside(findings: Sequence[Finding], inside: Inside) -> list[Finding]:
    """Returns findings without a line if another line inside the layer explains as much."""
    lines = {(each.file, each.line) for each in inside.findings if inside.is_of_all and each.line is not None}
    numbers = ", ".join(str(line) for _, line in sorted(lines))
    reason = f"A change in line {numbers} of the layer has equal results."
    return [without_line(each, reason) if lines - {(each.file, each.line)} else each for each in findings]


def _explain_beside(
    fault: LayerFault, probe: Probe, inside: Inside, before: Callable[[], Inside], *, is_partial: bool
) -> list[Finding]:
    """Returns the operations that explain a layer's output, or else the code before it or the cause of the layer."""
    if is_partial and inside.findings and not inside.is_exact and before().findings:
        return list(before().findings)
    if inside.findings and (compiled := layer_compiled_otherwise(probe, fault)):
        return compiled
    whole = explain(probe, fault, (other_attributes,)) if inside.is_exact else _explain_whole(fault, probe)
    if not inside.is_exact and not _is_of_layer(whole) and before().is_exact:
        return list(before().findings)
    if whole is None or (inside.findings and not whole.is_exact):
        return list(inside.findings)
    if len(inside.findings) != 1 or whole.finding.cause in _OF_INPUTS:
        return [whole.finding]
    (place,) = inside.findings
    if place.cause == OTHER_EXPRESSION and not all(is_short(each.artifact) for each in whole.finding.parameters):
        return list(inside.findings)
    if any(isinstance(each.model, bool) for each in whole.finding.parameters):  # whoever makes the layer gives a flag
        return [replace(whole.finding, file=place.file)]
    return [replace(whole.finding, file=place.file, line=place.line, operation=place.operation)]


def _is_of_layer(found: Explanation | None) -> bool:
    """Whether an explanation is exact, and more than moved values of an input or of the output."""
    if found is None or not found.is_exact or found.finding.cause in _OF_INPUTS:
        return False
    return not found.is_output or found.finding.cause is Cause.SCALED_VALUES


def _explain_whole(fault: LayerFault, probe: Probe) -> Explanation | None:
    """Returns the explanation of a layer's output. An exact one takes precedence over an approximate one.

    The search tries the layer itself, then uncertain layers before it, then the values of the output alone, and then
    the inputs of the layer.
    """
    before = [each.with_sighting(kind="downstream", through=fault) for each in fault.unsure]
    own = {getattr(layer, "compute_dtype", None) for layer in all_layers(probe.reference.model)}
    halves = [name for name in probe.runner.float_dtypes() if name in HALF] if own.isdisjoint(HALF) else []
    of_layer, of_inputs = sites_seen(Seen.LAYER), sites_seen(Seen.INPUTS)
    of_values = (*([rounded_inside(halves)] if halves else ()), *sites_seen(Seen.VALUES))
    joined = None if fault.folded else fault.through
    whole, before = (fault, before) if fault.folded is None else (fault.folded, [fault.folded, *before])
    tries = [*((each, of_layer) for each in (fault, *before)), (whole, of_values), (fault, of_inputs)]
    if joined is not None:  # first, since a layer that joins branches shows a missing branch better than the branch
        tries.insert(0, (joined, (other_operations,)))
    nearly: Explanation | None = None
    for each, sites in tries:
        found = explain(probe, each, sites)
        if found is None:
            continue
        absent = (*found.finding.absent, *fault.absent, *([fault.layer] if each is joined else []))
        found = replace(found, finding=replace(found.finding, absent=absent))
        if found.is_exact:
            return found
        nearly = nearly or found
    return nearly


def is_in_any(path: str, layers: Iterable[str]) -> bool:
    """Whether a path is that of one of some layers, or leads to a layer within one of them."""
    return any(is_within(path, layer) for layer in layers)


def changed_layers(probe: Probe) -> Iterator[Finding]:
    """Detects one or several changed layers of an artifact that shows its outputs only."""
    number = telling_case(probe)
    if number is None or not isinstance(probe.reference, KerasReference):
        return
    outside = OutsideView(probe, probe.reference, number)
    probe = replace(probe, others=outside.others)
    for seen in (Seen.MODEL, Seen.REPEATED, Seen.OUTPUTS):
        for fault in outside.faults():
            if (fault.through is None) != (seen is Seen.MODEL):
                continue
            probe.budget.check()
            found = explain(probe, fault, sites_seen(seen))
            if found is not None and found.is_exact:
                yield found.finding if fault.through is not None else replace(found.finding, layer=None)
                return
