"""Explains a wrong output of a layer by an edit of the layer's own code, or says where in that code the fault is."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.layer_paths import is_within
from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.code_findings import Inside, enclosing_findings, unexplained_finding
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.edit_candidates import Candidates
from keras_pe.export.parity.diagnosis.edit_search import explain
from keras_pe.export.parity.diagnosis.edits import Edits, Site
from keras_pe.export.parity.diagnosis.explanation import Explanation
from keras_pe.export.parity.diagnosis.inside_calls import Tape, kept_results, owner_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, Sighting, as_array
from keras_pe.export.parity.diagnosis.operation_walk import OperationWalk
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase
from keras_pe.export.parity.diagnosis.sites.inside_operations import operations_at
from keras_pe.export.parity.diagnosis.sites.inside_statements import users_layers
from keras_pe.export.parity.diagnosis.stored_constants import has_other_array
from keras_pe.export.parity.diagnosis.tensor_search import loose_tolerance
from keras_pe.export.results import Array, Finding
from keras_pe.export.runtimes.runtime import Arrays


def key_of(fault: LayerFault) -> tuple[str, int]:
    """Returns what differs among the outputs of all calls."""
    return fault.call.path, fault.index


class LayerCode:
    """The operations of a layer's own code that may be at fault in one case.

    Attributes:
        tape: The operations of the call.
        candidates: The operations that are edited. Later attempts locate more of them.
        first_located: The number of the first located operation; -1 without one.
    """

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
        self.candidates = self._first = Candidates(self.tape, self._walk.suspects(1), self._tapes)
        self.first_located = next(iter(self.candidates.suspects.located), -1)
        self._located = self._first_located()

    @property
    def layers_beside(self) -> tuple[str, ...]:
        """The other layers with wrong outputs that the same edit may explain."""
        return tuple(dict.fromkeys(each.layer for each in self._beside if each.layer != self._fault.layer))

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
        return [own, lambda: own(self.candidates.suspected), lambda: own(self.candidates.involved)]

    @cached_property
    def _has_other_array(self) -> bool:
        """Whether the artifact has a constant of the shape of an array that the layer keeps, and not that array."""
        return has_other_array(list(map(vars, users_layers(owner_of(self._fault)))), self._probe.constants())

    def _explain_located(self) -> Explanation | None:
        return self.explain(self.candidates.site, self._located)

    def _explain_layer(self) -> Explanation | None:
        """Returns the explanation of the layer by an operation, of all that are located."""
        self.candidates = Candidates(self.tape, self._walk.suspects(), self._tapes)
        return self.explain(self.candidates.site)

    def explain_statements(self, numbers: Collection[int] = (), *, is_larger: bool = False) -> Explanation | None:
        """Returns the exact explanation by another expression in a statement with some operations, or without any.

        It is None if the line of a statement with operations is not certain, since an operation may explain more.
        """
        found = self.by_statement(numbers, is_larger=is_larger)
        return found if found is not None and (found.finding.line is not None or not numbers) else None

    def by_statement(
        self,
        numbers: Collection[int] = (),
        *,
        is_larger: bool = False,
        beside: Collection[tuple[str | None, int | None]] = (),
    ) -> Explanation | None:
        """Returns the exact explanation by a statement outside of some lines, without its line if it is ambiguous."""
        statements = partial(self.candidates.statements, self._fault, is_larger=is_larger)
        edits, probe = statements(numbers), replace(self._probe, others=self._others_alike)
        named = [*beside]  # the file and the number of each line

        def other_statements(_: LayerFault) -> Edits:
            is_found = len(named) > len(beside)  # the second pass looks for equal changes in other lines
            more = self.candidates.involved if is_found and not numbers and not self._has_other_array else ()
            every = itertools.chain(edits, statements(more) if more else ())
            return (each for each in every if (each.places[0].file, each.places[0].line) not in named)

        found = self.explain(other_statements, probe=probe)
        if found is None or not found.is_exact:
            return None
        named.append(found.line)
        reached = len(probe.not_reached)
        clear = found.beside(self.explain(other_statements, probe=probe))
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

    def explain(self, site: Site, begun: Sequence[LayerFault] = (), probe: Probe | None = None) -> Explanation | None:
        """Returns the explanation of the layer by the edits of a site, as `edit_search.explain`."""
        return explain(probe or self._probe, self._fault, (site,), begun, self._beside)

    def explain_separately(self) -> Inside:
        """Returns the explanation of the layer by several separate operations, or else where the fault is."""
        is_several = len(self.candidates.suspects.located) > 1 and self._fault.location is not None
        separate = self._explain_each() if is_several else Inside()
        if separate.is_exact or (separate.findings and not self._have_one_origin()):
            return separate
        return Inside(tuple(self.located_findings()))

    def _first_located(self) -> list[LayerFault]:
        """Returns the fault of the first located operation, as the output of the code up to it, for each tensor."""
        if not self.candidates.suspects.first:
            return []
        result = as_array(self.tape.operations[self.first_located].outputs[0])
        call = replace(self._fault.call, outputs=(result,))
        fault = replace(self._fault, call=call, index=0, tolerance=loose_tolerance(result))
        return [fault.with_sighting(actual=each, through=None) for each in self.candidates.suspects.first]

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
        before = [self.tape.before((number, 0)) for number in self.candidates.suspects.located]
        return not set(self.candidates.suspects.unseen).isdisjoint(set[int].intersection(*before))

    def _explain_calls(self) -> Explanation | None:
        """Returns the explanation by the operations in one of several calls of a user's function."""
        alone: Explanation | None = None
        suspects = sorted({*self.candidates.suspects.located, *self.candidates.suspects.unseen}, reverse=True)
        callers = dict.fromkeys(caller for each in suspects for caller in self.tape.operations[each].callers)
        for caller in callers:
            within = partial(self._tapes, scope=caller)
            scoped = within(self._fault.call)
            if all(scoped.at(place) in ([], self.tape.at(place)) for place in self.candidates.places):
                continue  # the function has one call
            found = self.explain(operations_at(self.candidates.places, within), self._located)
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
        for number, put in self.candidates.suspects.located.items():
            place, origin = self.tape.operations[number].place, self.candidates.origin(number)
            others = (each for each in self.candidates.suspects.located.values() if each is not put)
            actual = self._with({name: array for each in others for name, array in each.items()})
            site = operations_at([place], self._tapes)
            explained = explain(alone, self._fault.with_sighting(actual=actual), (site,))
            is_exact &= explained is not None and explained.is_exact
            if explained is None:
                finding = unexplained_finding(self.candidates, number, self._fault.layer)
            else:
                finding = explained.finding
            found.setdefault(origin, finding)
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
