"""Finds causes inside a layer's own code: the operation at fault, its file and line, and its change."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.parity.diagnosis.code_findings import Inside
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.equal_changes import finding_inside
from keras_pe.export.parity.diagnosis.inside_calls import Tape, owner_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, Sighting
from keras_pe.export.parity.diagnosis.layer_code import LayerCode, key_of
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase, first_case
from keras_pe.export.progress import OutOfTimeError


def operations_at_fault(probe: Probe, fault: LayerFault) -> Inside:
    """Returns the operations at fault inside a layer, with their causes.

    One change may also explain the inner layers that the layer calls.
    """
    expectation = first_case(probe)
    if expectation is None or not isinstance(probe.reference, KerasReference):
        return Inside()
    once = replace(probe, results={}).once  # kept for this fault alone
    try:
        tape = once(Tape.of, fault.call)
    except Exception as error:  # a layer may raise any error if it is called outside of its model
        probe.note(f"the operations inside {fault.layer!r}", error)
        return Inside()
    if fault.index >= len(tape.outputs) or not tape.operations:
        return Inside()
    case = RecordedCase(probe, probe.reference, expectation)
    owner = owner_of(fault)
    faults = tuple(_code_fault(owner, each) for each in probe.faults)
    probe = replace(probe, faults=faults, others=partial(_others, probe, case))
    beside = [each for each in probe.faults if owner_of(each) is owner and each.sighting.kind == "direct"]
    beside = [each for each in beside if key_of(each) != key_of(fault)]
    # The first call alone may show a part of the change, such as that of a recurrence, whose state is zero there.
    wrong = (fault, *[each for each in beside if each.call.layer is fault.call.layer][-1:])

    @cache
    def code(number: int) -> LayerCode:
        others = [each for each in (fault, *beside) if each is not wrong[number]]
        return LayerCode(probe, case, wrong[number], others, once)

    first, alone = code(0), None
    try:
        order = list(itertools.product(range(len(first.attempts)), range(len(wrong))))
        if all(each.call is fault.call for each in wrong):  # one output shows as much as another
            order.sort(key=lambda pair: pair[1])
        for step, number in order:
            own = code(number)
            attempt = None if own.follows(first) else next(iter(own.attempts[step:]), None)
            found = attempt() if attempt is not None else None
            if found is not None and found.is_exact:
                if found.is_of_all:
                    return finding_inside(own, found)
                alone = alone or (found if own is first else None)
        if alone is None:
            return first.explain_separately()
    except OutOfTimeError:
        probe.not_reached.append(f"the operations inside {fault.layer!r}")
    return Inside(tuple(first.located_findings())) if alone is None else finding_inside(first, alone)


def _others(probe: Probe, case: RecordedCase, fault: LayerFault) -> Iterator[LayerFault]:
    """Yields a fault in each other case, and the right calls of the layer, which run the code at fault as well."""
    recorded = {key_of(each): each for each in probe.faults}
    found = (_code_fault(owner_of(fault), each) for each in probe.others(recorded[key_of(fault)]))
    yield from (each for each in found if each.call.layer == fault.call.layer)
    wrong = {each.call.path for each in probe.faults}
    for output in case.outputs:
        is_same = output.call.layer is fault.call.layer and output.index == fault.index
        if is_same and output.call.path not in wrong:
            yield LayerFault(output.call, output.index, output.tolerance, Sighting(actual=output.array))


def code_before_at_fault(probe: Probe, fault: LayerFault) -> Inside:
    """Returns the operations at fault in the code of a user's layer before the call of an inner layer."""
    before = fault.around.within
    return Inside() if before is None else operations_at_fault(probe, _code_fault(before.layer.outer, fault))


def _code_fault(outer: object, fault: LayerFault) -> LayerFault:
    """Returns the fault of an inner layer that a layer calls as one of the code before that call."""
    before = fault.around.within
    is_inner = before is not None and before.layer.outer is outer
    return replace(fault, call=before) if is_inner and before is not None else fault
