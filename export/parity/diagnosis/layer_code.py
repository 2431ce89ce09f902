"""Explains a wrong output of a layer by an edit of the layer's own code, or says where in that code the fault is."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeGuard

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.layer_paths import is_within
from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.code_findings import Inside, enclosing_findings, unexplained_finding
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.edit_candidates import Candidates
from keras_pe.export.parity.diagnosis.edit_search import Explanation, explain
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit, Site
from keras_pe.export.parity.diagnosis.inside_calls import Tape, kept_results, owner_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, Sighting, as_array
from keras_pe.export.parity.diagnosis.operation_walk import OperationWalk
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase
from keras_pe.export.parity.diagnosis.sites.inside_operations import operations_at
from keras_pe.export.parity.diagnosis.sites.inside_statements import OTHER_EXPRESSION, users_layers
from keras_pe.export.parity.diagnosis.stored_constants import has_other_array
from keras_pe.export.parity.diagnosis.tensor_search import loose_tolerance
from keras_pe.export.results import Array, Cause, Finding
from keras_pe.export.runtimes.runtime import Arrays

_OF_CALLS = {Cause.OTHER_INPUT, Cause.OPERATION_LEFT_OUT}
_OF_NUMBERS = {Cause.OTHER_PADDING, Cause.attribute("iterations")}
_OF_SIGNS = {Cause.FLIPPED_SIGN, Cause.OTHER_OPERATION}
_OF_TENSORS = {Cause.OTHER_INPUT, Cause.EXCHANGED_INPUTS, Cause.OTHER_ORDER, Cause.SHIFTED_ROWS}


def _explains_as_much(other: Explanation | None, exact: Explanation) -> TypeGuard[Explanation]:
    """Whether another explanation is exact, too, for as many outputs."""
    return other is not None and other.is_exact and other.is_of_all is exact.is_of_all


def key_of(fault: LayerFault) -> tuple[str, int]:
    """Returns what differs among the outputs of all calls."""
    return fault.call.path, fault.index


class LayerCode:
    """The operations of a layer's own code that may be at fault in one case."""

    def __init__(
        self,
        probe: Probe,
        case: RecordedCase,
        fault: LayerFault,
        beside: Sequence[LayerFault],
        once: Callable[..., Tape],
    ) -> None:
        self._probe, self._case, self._fault, self._once, self._beside = probe, case, fault, once, beside
        self._kept: dict[str, frozenset[int]] = {}
        self.tape = once(Tape.of, fault.call)
        self._before = self._replaced_before()
        self._walk = OperationWalk(case, fault, self.tape, self._before)
        self._now = self._first = Candidates(self.tape, self._walk.suspects(1), self._tapes)
        self.first_located = next(iter(self._now.suspects.located), -1)
        self._located = self._first_located()

    def follows(self, other: "LayerCode") -> bool:
        """Whether the first located operation follows from that of another output of the same call."""
        own, first = self.first_located, other.first_located
        return self.tape is other.tape and own != first and first in self.tape.before((own, 0))

    @cached_property
    def attempts(self) -> Sequence[Callable[[], Explanation | None]]:
        """The attempts to explain the layer, the fastest first.

        With a located operation, an edit must explain the code up to that one first, which takes less time. If the
        artifact has an array of the layer otherwise, the statements that make the array come first.
        """
        statements, larger = self._statements(), self._statements(is_larger=True)
        first = [statements.pop(0), larger.pop(0)] if self._has_other_array else []
        located = [self._explain_located, self._explain_calls, *statements] if self._located else []
        later = [] if self._located else [self._explain_calls, *statements]
        return [*first, *located, self._explain_layer, *later, *larger]

    def _statements(self, *, is_larger: bool = False) -> list[Callable[[], Explanation | None]]:
        """The attempts by the statements without operations, by those of suspects, and by those of their operands."""
        own = partial(self.explain_statements, is_larger=is_larger)
        return [own, lambda: own(self._now.suspected), lambda: own(self._now.involved)]

    @cached_property
    def _has_other_array(self) -> bool:
        """Whether the artifact has a constant of the shape of an array that the layer keeps, and not that array."""
        return has_other_array(list(map(vars, users_layers(owner_of(self._fault)))), self._probe.constants())

    def _explain_located(self) -> Explanation | None:
        return self._explain(self._now.site, self._located)

    def _explain_layer(self) -> Explanation | None:
        """Returns the explanation of the layer by an operation, of all that are located."""
        self._now = Candidates(self.tape, self._walk.suspects(), self._tapes)
        return self._explain(self._now.site)

    def explain_statements(self, numbers: Collection[int] = (), *, is_larger: bool = False) -> Explanation | None:
        """Returns the exact explanation by another expression in a statement with some operations, or without any.

        It is None if the line of a statement with operations is not certain, since an operation may explain more.
        """
        found = self._by_statement(numbers, is_larger=is_larger)
        return found if found is not None and (found.finding.line is not None or not numbers) else None

    def _by_statement(
        self,
        numbers: Collection[int] = (),
        *,
        is_larger: bool = False,
        beside: Collection[tuple[str | None, int | None]] = (),
    ) -> Explanation | None:
        """Returns the exact explanation by a statement outside of some lines, without its line if it is ambiguous."""
        statements = partial(self._now.statements, self._fault, is_larger=is_larger)
        edits, probe = statements(numbers), replace(self._probe, others=self._others_alike)
        named = [*beside]  # the file and the number of each line

        def other_statements(_: LayerFault) -> Edits:
            is_found = len(named) > len(beside)  # the second pass looks for equal changes in other lines
            more = self._now.involved if is_found and not numbers and not self._has_other_array else ()
            every = itertools.chain(edits, statements(more) if more else ())
            return (each for each in every if (each.places[0].file, each.places[0].line) not in named)

        found = self._explain(other_statements, probe=probe)
        if found is None or not found.is_exact:
            return None
        named.append(found.line)
        reached = len(probe.not_reached)
        clear = self._without_line(found, self._explain(other_statements, probe=probe))
        is_whole = len(probe.not_reached) == reached
        return clear if is_whole else found.without_line("The time ended before all lines were tried.")

    def _others_alike(self, fault: LayerFault) -> Iterator[LayerFault]:
        """Yields other cases, and the right calls of other layers of the class, which run the same statements."""
        yield from self._probe.others(fault)
        wrong = {layer for each in self._probe.faults for layer in each.layers}
        for output in self._case.outputs:
            is_alike = type(output.call.layer) is type(fault.call.layer) and output.call.layer is not fault.call.layer
            is_right = not any(is_within(each, output.layer) for each in wrong)
            if is_alike and is_right and output.index == fault.index:
                yield LayerFault(output.call, output.index, output.tolerance, Sighting(actual=output.array))

    def _explain(self, site: Site, begun: Sequence[LayerFault] = (), probe: Probe | None = None) -> Explanation | None:
        return explain(probe or self._probe, self._fault, (site,), begun, self._beside)

    def inside(self, exact: Explanation) -> Inside:
        """Returns the finding of an exact explanation. Other layers that it explains follow from it."""
        if exact.finding.line is None and exact.finding.file and exact.finding.cause != OTHER_EXPRESSION:
            statements = map(self._by_statement, ((), self._now.unproved, self._now.involved))
            other = next(filter(None, statements), None)
            exact = other if _explains_as_much(other, exact) and other.line in exact.lines else exact
        finding, own = self._unless_equal_elsewhere(exact), self._fault.layer
        others = dict.fromkeys(each.layer for each in self._beside if exact.is_of_all and each.layer != own)
        return Inside((replace(finding, absent=(*finding.absent, *others)),), True)

    def explain_separately(self) -> Inside:
        """Returns the explanation of the layer by several separate operations, or else where the fault is."""
        is_several = len(self._now.suspects.located) > 1 and self._fault.location is not None
        separate = self._explain_each() if is_several else Inside()
        if separate.is_exact or (separate.findings and not self._have_one_origin()):
            return separate
        return Inside(tuple(self.located_findings()))

    def _first_located(self) -> list[LayerFault]:
        """Returns the fault of the first located operation, as the output of the code up to it, for each tensor."""
        if not self._now.suspects.first:
            return []
        result = as_array(self.tape.operations[self.first_located].outputs[0])
        call = replace(self._fault.call, outputs=(result,))
        fault = replace(self._fault, call=call, index=0, tolerance=loose_tolerance(result))
        return [fault.with_sighting(actual=each, through=None) for each in self._now.suspects.first]

    def _tapes(self, call: LayerCall, scope: CodePlace | None = None) -> Tape:
        is_begun = bool(self._located) and call is self._located[0].call
        tape = self._once(Tape.until, self.tape, self.first_located) if is_begun else self._once(Tape.of, call)
        if call.path not in self._kept:
            faults = [each for each in self._probe.faults if owner_of(each) is owner_of(self._fault)]
            self._kept[call.path] = kept_results(faults, call.path, partial(self._once, Tape.of))
        kept = self._kept[call.path]
        tape = self._once(Tape.keeping, tape, kept) if kept else tape
        return tape if scope is None else self._once(Tape.within, tape, scope)

    def _have_one_origin(self) -> bool:
        """Whether one operation without a tensor leads to all located operations. The fault may be its own."""
        before = [self.tape.before((number, 0)) for number in self._now.suspects.located]
        return not set(self._now.suspects.unseen).isdisjoint(set[int].intersection(*before))

    def _explain_calls(self) -> Explanation | None:
        """Returns the explanation by the operations in one of several calls of a user's function."""
        alone: Explanation | None = None
        suspects = sorted({*self._now.suspects.located, *self._now.suspects.unseen}, reverse=True)
        callers = dict.fromkeys(caller for each in suspects for caller in self.tape.operations[each].callers)
        for caller in callers:
            within = partial(self._tapes, scope=caller)
            scoped = within(self._fault.call)
            if all(scoped.at(place) in ([], self.tape.at(place)) for place in self._now.places):
                continue  # the function has one call
            found = self._explain(operations_at(self._now.places, within), self._located)
            if found is not None and found.is_exact:
                if self._is_outside(caller, found.finding):
                    found = replace(found, finding=replace(found.finding, **caller.fields))
                if found.is_of_all:
                    return found
                alone = alone or found
        return alone

    def _is_outside(self, caller: CodePlace, finding: Finding) -> bool:
        """Whether operations outside of a call run the code of a finding, too."""
        outside = (place for each in self.tape.operations if caller not in each.callers for place in each.places)
        return any((each.file, each.line) == (finding.file, finding.line) for each in outside)

    def _unless_equal_elsewhere(self, exact: Explanation) -> Finding:
        """Returns a finding without its line if a change in another line gives equal numbers.

        It is another expression, a factor or a summand, or a call of a user's function that is left out or given
        another tensor.
        """
        finding = exact.finding
        added = {each.name for each in finding.parameters} & {"factor", "offset"}
        own = finding.file, finding.line
        chains = [operation.places for operation in self.tape.operations]
        around = {place for chain in chains for place in chain if own in [(each.file, each.line) for each in chain]}
        calls = {caller for _, *callers in chains for caller in callers} - around

        def is_alike(edit: Edit | NumericEdit) -> bool:
            if isinstance(edit, NumericEdit):
                return edit.start.keys() == added
            return {finding.cause, edit.cause} <= _OF_CALLS and not calls.isdisjoint(edit.places)

        def equal_edits(fault: LayerFault) -> Edits:
            alike = filter(is_alike, self._now.site(fault))
            return (each for each in alike if each.places and own not in {(at.file, at.line) for at in each.places})

        other: Explanation | None = None
        if added or finding.cause in _OF_CALLS:
            other = self._explain(equal_edits)
        elif finding.cause in _OF_NUMBERS:  # another statement may compute them
            other = self._by_statement(beside=[own])
        is_of_tensors = finding.cause in _OF_TENSORS
        if other is None and finding.line is not None and (is_of_tensors or finding.cause in _OF_SIGNS):
            numbers = self._now.unproved if is_of_tensors else self._now.suspected
            if self._located:  # its tensor shows that no later operation is at fault, and no call around it
                numbers = numbers & {self.first_located, *self.tape.before((self.first_located, 0))}
            lines = [[(at.file, at.line) for at in chain] for chain in chains]
            beside = {line for each in lines if own in each for line in each[each.index(own) :]}
            other = self._by_statement(numbers, beside=beside) if numbers else None
            same = [number for number, each in enumerate(lines) if own in each]
            is_clear = is_of_tensors and _explains_as_much(other, exact) and other.finding.line is not None
            if other is not None and is_clear and self._by_statement(same) is None:
                return other.finding  # an expression is a simpler change than that of the tensors which it reads
        return self._without_line(exact, other).finding

    @staticmethod
    def _without_line(exact: Explanation, other: Explanation | None) -> Explanation:
        """Returns an explanation without its line if a change in another line explains as much."""
        if not _explains_as_much(other, exact) or other.line == exact.line:
            return exact
        lines = ", ".join(str(number) for _, number in sorted(other.lines))
        return exact.without_line(f"A change in line {lines} has equal results.")

    def _replaced_before(self) -> Arrays:
        """Returns replacements of the artifact's tensors that correct all faults before this layer."""
        replaced: Arrays = {}
        plain = self._case.run_inside({})
        for each in itertools.takewhile(lambda each: key_of(each) != key_of(self._fault), self._probe.faults):
            shown = each.through or each
            if shown.location is not None:
                replaced |= plain.in_place_of(shown.location, shown.expected)
        return replaced

    def _explain_each(self) -> Inside:
        """Returns the explanation of each of several operations, with Keras' results at the others."""
        found, is_exact = dict[CodePlace, Finding](), True
        alone = replace(self._probe, others=lambda fault: ())
        for number, put in self._now.suspects.located.items():
            place, origin = self.tape.operations[number].place, self._now.origin(number)
            others = (each for each in self._now.suspects.located.values() if each is not put)
            actual = self._with({name: array for each in others for name, array in each.items()})
            site = operations_at([place], self._tapes)
            explained = explain(alone, self._fault.with_sighting(actual=actual), (site,))
            is_exact &= explained is not None and explained.is_exact
            found.setdefault(
                origin,
                unexplained_finding(self._now, number, self._fault.layer) if explained is None else explained.finding,
            )
        by_line = {(each.file, each.line): each for each in reversed(found.values())}
        return Inside(tuple(reversed(by_line.values())), is_exact)

    def _with(self, others: Mapping[str, Array]) -> Array:
        """Returns the artifact's value of the layer's output after replacing other tensors."""
        tensors = self._case.run_inside({**self._before, **others})
        assert self._fault.location is not None
        return tensors.in_shape(self._fault.location, self._fault.expected.shape)

    def located_findings(self) -> list[Finding]:
        """Returns the first operation that is certainly at fault, or the two operations that enclose the fault."""
        return enclosing_findings(self._first, self._fault.layer)
