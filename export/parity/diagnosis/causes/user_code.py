"""Finds causes inside a layer's own code: the operation at fault, its file and line, and its change."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation
from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.edit_search import Explanation, explain
from keras_pe.export.parity.diagnosis.edits import Edits, NumericEdit, Site
from keras_pe.export.parity.diagnosis.inside_calls import Source, Tape, Tapes
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, Sighting, as_array
from keras_pe.export.parity.diagnosis.operation_edits import is_alike
from keras_pe.export.parity.diagnosis.operation_walk import OperationWalk, Suspects
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase, first_case
from keras_pe.export.parity.diagnosis.sites.inside_operations import operations_at
from keras_pe.export.results import Array, Cause, Finding
from keras_pe.export.runtimes.runtime import Arrays

_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?(?::0)?", re.DOTALL)


@dataclass(frozen=True)
class Inside:
    """The findings inside a layer.

    Attributes:
        findings: The operations at fault; empty if the layer has no user code, or the operations show no fault.
        is_exact: Whether each cause gives the artifact's numbers.
    """

    findings: tuple[Finding, ...] = ()
    is_exact: bool = False


def operations_at_fault(probe: Probe, fault: LayerFault) -> Inside:
    """Returns the operations at fault inside a layer, with their causes."""
    expectation = first_case(probe)
    if expectation is None or not isinstance(probe.reference, KerasReference):
        return Inside()
    once = replace(probe, results={}).once  # kept for this fault alone
    try:
        tape = once(Tape.of, fault.call)
    except Exception as error:  # a layer may raise any error if it is called outside of its model
        probe.note(f"the operations inside {fault.layer!r}", error)
        return Inside()
    if fault.index >= len(tape.outputs) or tape.source(tape.outputs[fault.index]) is None or not tape.operations:
        return Inside()
    case = RecordedCase(probe, probe.reference, expectation)
    return _Code(replace(probe, others=partial(_other_cases_and_calls, probe, case)), case, fault, once).explain_layer()


def _other_cases_and_calls(probe: Probe, case: RecordedCase, fault: LayerFault) -> Iterator[LayerFault]:
    """Yields a fault in each other case, and the right calls of the layer, which run the code at fault as well."""
    yield from probe.others(fault)
    wrong = {each.call.path for each in probe.faults}
    for output in case.outputs:
        is_same = output.call.layer is fault.call.layer and output.index == fault.index
        if is_same and output.call.path not in wrong:
            yield LayerFault(output.call, output.index, output.tolerance, Sighting(actual=output.array))


def code_before_at_fault(probe: Probe, fault: LayerFault) -> Inside:
    """Returns the operations at fault in the code of a user's layer before the call of an inner layer."""

    def within(each: LayerFault) -> LayerFault:
        assert each.around.within is not None
        return replace(each, call=each.around.within)

    def others(_: LayerFault) -> Iterator[LayerFault]:
        return (within(each) for each in probe.others(fault) if each.around.within is not None)

    if fault.around.within is None:
        return Inside()
    return operations_at_fault(replace(probe, others=others), within(fault))


class _Code:
    """The operations of a layer's own code that may be at fault in one case."""

    def __init__(self, probe: Probe, case: RecordedCase, fault: LayerFault, once: Callable[..., Tape]) -> None:
        self._probe, self._case, self._fault, self._once = probe, case, fault, once
        self._tapes: Tapes = partial(once, Tape.of)
        self._tape = self._tapes(fault.call)
        self._before = self._replaced_before()
        self._suspects: Suspects = OperationWalk(case, fault, self._tape, self._before).suspects()

    def explain_layer(self) -> Inside:
        """Returns the explanation of the layer by one operation, or else by several separate operations."""
        located, unseen = self._suspects.located, self._suspects.unseen
        before = sorted(self._right_before())
        several = [number for number in before if len(self._tape.consumers(number)) > 1]
        places = dict.fromkeys(map(self._place, sorted({*located, *unseen, *several})))
        earlier = dict[CodePlace, CodePlace]()
        for number in before:
            earlier.setdefault(self._place(number), self._place_of_result(number))
        site = operations_at(list(places), self._tapes, list(self._exchangeable()), earlier)
        whole = explain(self._probe, self._fault, (site,))
        exact = whole if whole is not None and whole.is_exact else self._explain_calls(list(places))
        if exact is not None:
            return Inside((self._unless_equal_elsewhere(exact.finding, site),), True)
        is_several = len(located) > 1 and self._fault.location is not None
        separate = self._explain_separately() if is_several else Inside()
        if separate.is_exact or (separate.findings and not self._have_one_origin()):
            return separate
        return Inside(tuple(self._located_findings()))

    def _have_one_origin(self) -> bool:
        """Whether one operation without a tensor leads to all located operations. The fault may be its own."""
        before = [self._tape.before((number, 0)) for number in self._suspects.located]
        return not set(self._suspects.unseen).isdisjoint(set[int].intersection(*before))

    def _explain_calls(self, places: Sequence[CodePlace]) -> Explanation | None:
        """Returns the exact explanation by the operations in one of several calls of a user's function."""
        suspects = sorted({*self._suspects.located, *self._suspects.unseen}, reverse=True)
        callers = dict.fromkeys(caller for each in suspects for caller in self._tape.operations[each].callers)
        for caller in callers:
            within = partial(self._within, caller)
            scoped = within(self._fault.call)
            if all(scoped.at(place) in ([], self._tape.at(place)) for place in places):
                continue  # the function has one call
            found = explain(self._probe, self._fault, (operations_at(places, within),))
            if found is not None and found.is_exact:
                return replace(found, finding=replace(found.finding, **caller.fields))
        return None

    def _unless_equal_elsewhere(self, finding: Finding, site: Site) -> Finding:
        """Returns a finding without its line if an equal factor or summand in another line gives equal numbers."""
        added = {each.name for each in finding.parameters} & {"factor", "offset"}
        own = finding.file, finding.line

        def equal_edits(fault: LayerFault) -> Edits:
            alike = (each for each in site(fault) if isinstance(each, NumericEdit) and each.start.keys() == added)
            return (each for each in alike if each.place and (each.place.file, each.place.line) != own)

        other = explain(self._probe, self._fault, (equal_edits,)) if added else None
        if other is None or not other.is_exact:
            return finding
        evidence = f"{finding.evidence} An equal change in line {other.finding.line} has equal results."
        return replace(finding, evidence=evidence, line=None, operation=None)

    def _within(self, scope: CodePlace, call: LayerCall) -> Tape:
        return self._once(Tape.within, self._tapes(call), scope)

    def _place(self, number: int) -> CodePlace:
        return self._tape.operations[number].place

    def _place_of_result(self, number: int) -> CodePlace:
        """Returns the line that alone selects values of a result, if the artifact has a tensor with that result."""
        readers = self._tape.consumers(number)
        places = [self._place(each) for each in readers]
        is_one = len({(each.file, each.line) for each in places}) == 1
        is_selected = number in self._suspects.tensors and all(map(self._selects, readers))
        return places[0] if is_one and is_selected else self._place(number)

    def _selects(self, number: int) -> bool:
        """Whether an operation returns values of its only operand."""
        operands, results = self._tape.operations[number].operands, self._tape.operations[number].outputs
        return len(operands) == 1 and all(np.isin(each, as_array(operands[0])).all() for each in map(as_array, results))

    def _replaced_before(self) -> Arrays:
        """Returns replacements of the artifact's tensors that correct all faults before this layer."""
        replaced: Arrays = {}
        plain = self._case.run_inside({})
        own = self._fault.call.path, self._fault.index
        for each in itertools.takewhile(lambda each: (each.call.path, each.index) != own, self._probe.faults):
            shown = each.through or each
            if shown.location is not None:
                replaced |= plain.in_place_of(shown.location, shown.expected)
        return replaced

    def _explain_separately(self) -> Inside:
        """Returns the explanation of each of several operations, with Keras' results at the others."""
        found, is_exact = dict[CodePlace, Finding](), True
        alone = replace(self._probe, others=lambda fault: ())
        for number, put in self._suspects.located.items():
            place, origin = self._place(number), self._origin(number)
            others = (each for each in self._suspects.located.values() if each is not put)
            actual = self._with({name: array for each in others for name, array in each.items()})
            site = operations_at([place], self._tapes)
            explained = explain(alone, self._fault.with_sighting(actual=actual), (site,))
            is_exact &= explained is not None and explained.is_exact
            found.setdefault(origin, self._unexplained_finding(number) if explained is None else explained.finding)
        by_line = {(each.file, each.line): each for each in reversed(found.values())}
        return Inside(tuple(reversed(by_line.values())), is_exact)

    def _with(self, others: Mapping[str, Array]) -> Array:
        """Returns the artifact's value of the layer's output after replacing other tensors."""
        tensors = self._case.run_inside({**self._before, **others})
        assert self._fault.location is not None
        return tensors.in_shape(self._fault.location, self._fault.expected.shape)

    def _origin(self, number: int) -> CodePlace:
        """Returns the place of an operation, or of the call of a user's own function that is right in another call."""
        right = self._suspects.tensors.keys() - {*self._suspects.unseen, *self._suspects.located}
        sound = {chain for each in right for chain in _call_chains(self._tape.operations[each])}
        chains = _call_chains(self._tape.operations[number])
        wrong = (own for own in chains if not any(each[0] == own[0] and each != own for each in sound))
        return next(wrong, chains[0])[0]

    def _unexplained_finding(self, number: int) -> Finding:
        """Returns the finding of a located operation, and of those that its operands follow from without a tensor."""
        place, unseen = self._origin(number), self._tape.before((number, 0)).intersection(self._suspects.unseen)
        is_certain = unseen.isdisjoint(source for source, _ in self._tape.sources(number))
        return self._unknown(place) if is_certain else self._between(self._origin(min(unseen)), place)

    def _between(self, first: CodePlace, last: CodePlace) -> Finding:
        description = f"The fault is between {first} and {last}. The artifact has no tensor between them."
        return Finding(Cause.UNKNOWN, description, self._fault.layer, file=first.file)

    def _unknown(self, place: CodePlace) -> Finding:
        description = f"At {place} the operands agree with the artifact's tensors, but the result does not."
        return Finding(Cause.UNKNOWN, description, self._fault.layer, **place.fields)

    def _located_findings(self) -> Iterator[Finding]:
        """Yields the operation that is certainly at fault, or the two operations that enclose the fault."""
        located = [self._origin(number) for number in self._suspects.located]
        unseen = [self._origin(number) for number in self._suspects.unseen]
        every = sorted({(place.file, place.line): place for place in (*located, *unseen)}.items())
        if len(every) == 1 or (located and not unseen):
            yield self._unknown((located or unseen)[-1])
        elif every:
            (_, first), (_, last) = every[0], every[-1]
            yield self._between(first, last)

    def _right_before(self) -> Iterator[int]:
        """Yields operations before the wrong ones that may be at fault.

        Only wrong operations use their results. The results of constants and weights count if one wrong operation uses
        them, since no tensor proves them right.
        """
        wrong = {*self._suspects.located, *self._suspects.unseen, *self._suspects.wrong}
        suspected = set(wrong)
        for number in reversed(range(len(self._tape.operations))):
            after = self._tape.consumers(number)
            if number in wrong or not after or self._tape.is_output(number):
                continue
            is_constant = not self._tape.depends_on_inputs(number)
            if suspected.intersection(after) if is_constant else wrong.issuperset(after):
                suspected |= {number} if is_constant else set()
                yield number

    def _exchangeable(self) -> Iterator[tuple[Source, Source, list[int], CodePlace]]:
        """Yields pairs of tensors of equal shape that suspects read, with the readers and the place to report.

        The readers are all of them, or those of one line. The place is that of the first result if the artifact numbers
        the results in the other order, or if several lines read them. Otherwise, it is the place that reads them. A
        single operation that reads both is skipped, since it has its operands exchanged. So is a pair that follows from
        a result which the artifact lacks: the exchange of exp(x) and exp(-x) is a sign of x.
        """
        suspects = {*self._suspects.located, *self._suspects.unseen}
        read = dict.fromkeys(source for number in sorted(suspects) for source in self._tape.sources(number))
        known = [source for source in read if source[0] not in suspects or not self._tape.depends_on_inputs(source[0])]
        for one, other in itertools.combinations(sorted(known), 2):
            readers = [n for n in sorted(suspects) if {one, other} & set(self._tape.sources(n))]
            # Two results of constants may fit by chance.
            if suspects.issuperset((one[0], other[0])) or not is_alike(*map(self._tape.tensor, (one, other))):
                continue
            if self._tape.before(one).intersection(self._tape.before(other), self._suspects.missing):
                continue
            tensors = [self._suspects.tensors.get(number, "") for number, _ in (one, other)]
            by_line = dict[tuple[str, int], list[int]]()
            for number in readers:
                by_line.setdefault((self._place(number).file, self._place(number).line), []).append(number)
            is_earlier = one[0] >= 0 and (_is_turned(*tensors) or len(by_line) > 1)
            for every in (readers, *by_line.values()) if len(by_line) > 1 else (readers,):
                if len(every) > 1:
                    yield one, other, every, self._origin(one[0] if is_earlier and every is readers else every[0])


def _call_chains(operation: Operation) -> list[tuple[CodePlace, ...]]:
    """Returns the place of an operation and of each call around it, each with the calls around it."""
    return [operation.places[level:] for level in range(len(operation.places))]


def _is_turned(one: str, other: str) -> bool:
    """Whether the first of two names that differ in their final number has the larger number."""
    (base, number), (other_base, other_number) = (_NUMBERED.fullmatch(name).groups() for name in (one, other))  # type: ignore[union-attr]
    return bool(base == other_base and int(number or 0) > int(other_number or 0))
