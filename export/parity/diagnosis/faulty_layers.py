"""Finds the layers at fault, by replacing the artifact's tensors with Keras' outputs one after another."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.model.stored_weights import is_foldable
from keras_pe.export.model.watch.layer_paths import is_inside
from keras_pe.export.parity.diagnosis.code_graph import reach
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, Sighting, Surroundings
from keras_pe.export.parity.diagnosis.other_cases import OtherCase, in_other_cases, with_surroundings
from keras_pe.export.parity.diagnosis.output_locations import Location, OutputLocations
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase, RecordedOutput, other_cases
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch, loose_tolerance
from keras_pe.export.progress import OutOfTimeError
from keras_pe.export.results import Array, CaseStatus, LayerResult, Proof

_MOST_FAULTS = 32
_MOST_CANDIDATES = 8  # tensors that are tried in place of one whose values do not explain the outputs
_NEARER = 0.1  # largest share of the outputs' difference that values which explain it leave


@dataclass(frozen=True)
class LayerTrace:
    """The result of following the model through the artifact.

    Attributes:
        layers: A result for each layer; empty if the artifact shows no inner tensors, or there are no layers.
        faults: The layers at fault, in the order of computation.
        others: Returns a fault in each other case.
        proof: The artifact's outputs with the faulty tensors replaced; None if nothing was replaced.
        is_sound_inside: Whether the artifact, run with inner tensors and without optimizations, agrees with Keras.
    """

    layers: tuple[LayerResult, ...] = ()
    faults: tuple[LayerFault, ...] = ()
    others: Callable[[LayerFault], Iterable[LayerFault]] = lambda fault: ()
    proof: Proof | None = None
    is_sound_inside: bool = False


def trace_faults(probe: Probe, reference: KerasReference, expectation: Expectation) -> LayerTrace:
    """Returns the layers at which the artifact departs from the model in one case.

    The first layer in order whose output the artifact lacks is at fault. It is the innermost one, since inner layers
    return before outer ones. Keras' output then replaces its tensor, and everything after it is compared again. A later
    layer that still differs is a separate fault.
    """
    if "intermediates" not in probe.runner.capabilities:
        return LayerTrace()
    case = RecordedCase(probe, reference, expectation)
    if not case.outputs:
        return LayerTrace()
    cases = {n: OtherCase(probe, reference, probe.run.expectations[n]) for n in other_cases(probe, expectation)}
    passed = (each for n, each in cases.items() if probe.run.result.cases[n].status is CaseStatus.PASSED)
    trace = _Walk(case, next(passed, None)).trace()
    return replace(trace, others=partial(in_other_cases, list(cases.values()), trace.faults))


class _Walk:
    """A pass through the model's layers in one case, and the faults on the way."""

    def __init__(self, case: RecordedCase, right_case: OtherCase | None) -> None:
        """Begins the pass.

        Args:
            case: A case that failed.
            right_case: A case in which the artifact's outputs are right, or None.
        """
        self._right_case = right_case
        self._case, self._outputs, self._artifact = case, case.outputs, OutputLocations(case)
        self._before = self._artifact.tensors
        self._faults: list[tuple[RecordedOutput, LayerFault]] = []
        self._merged = set[int]()
        self._absent: list[RecordedOutput] = []  # outputs without a tensor whose fault is not known yet
        self._passed_over = set[int]()

    def trace(self) -> LayerTrace:
        plain, differing = self._artifact.matches, self._artifact.differing
        is_sound = self._artifact.outputs_pass()[2]
        try:
            while not self._artifact.outputs_pass()[2] and len(self._faults) < _MOST_FAULTS:
                output = self._first_that_differs()
                if output is None:
                    break
                if self._is_merged(output):
                    self._merged.add(output.number)
                elif not self._replace(self._enclosing(output)):
                    break
                self._passed_over.add(output.number)
        except OutOfTimeError:
            self._case.probe.not_reached.append(f"the layers after the first {len(self._faults)} at fault")
        if self._absent:
            self._add(self._absent[0], self._fault(self._absent[0]))
        blamed = {output.number: output for output, _ in self._faults}
        outputs = [blamed.get(each.number, each) for each in self._outputs]
        differing = differing - self._merged
        results = tuple(self._result(each, plain[each.number], each.number in differing) for each in outputs)
        faults = tuple(fault for _, fault in sorted(self._faults, key=lambda pair: pair[0].number))
        return LayerTrace(results, faults, proof=self._proof(), is_sound_inside=is_sound)

    def _first_that_differs(self) -> RecordedOutput | None:
        done = {output.number for output, _ in self._faults} | self._passed_over
        left = [output for output in self._outputs if output.number in self._artifact.differing - done]
        first = next(iter(left), None)
        following = reach([each.number for each in left[:1]], self._artifact.numbers_after)
        beside = next((each for each in left if each.number not in following), None)
        return beside if first is not None and beside is not None and self._is_unproven(first) else first

    def _is_unproven(self, output: RecordedOutput) -> bool:
        """Whether no tensor shows an output wrong. One operator may join it with others, of which one is wrong."""
        location = self._artifact.locate(output) if self._artifact.is_unnamed(output) else None
        return location is not None and not location.mends_more_than([output.number])

    def _is_merged(self, output: RecordedOutput) -> bool:
        """Whether a layer without its own tensor is a part of one that differs. One operator may compute both."""
        differing = [self._outputs[number].call.path for number in self._artifact.differing]
        whole = next((path for path in differing if is_inside(output.call.path, path)), None)
        if whole is None or self._artifact.names_of(output):
            return False
        location = self._artifact.locate(output)
        return location is None or not location.mends_more_than([output.number])

    def _enclosing(self, output: RecordedOutput) -> RecordedOutput:
        """Returns the enclosing layer if the layer has a wrong input, since the enclosing code computes such inputs."""
        path = output.call.path
        holds = self._artifact.tensors.holds
        while path and not all(holds(array, loose_tolerance(array)) for array in output.loose_inputs):
            path = path.rpartition("/")[0]
            pairs = ((each, pair) for each in self._outputs[output.number :] for pair in each.calls)
            outer = [each.as_of(*pair) for each, pair in pairs if pair[0].layer_path == path]
            wrong = (each for each in outer if each.number in self._artifact.differing)
            output = next(itertools.chain(wrong, outer), output)
        return output

    def _replace(self, output: RecordedOutput) -> bool:
        """Replaces the output's tensor by Keras' output. Returns False if the tensor has another size.

        A layer without any tensor may have been left out. Its fault follows from the next one that is found.
        """
        found = self._explaining(output, self._artifact.locate(output))
        mends_more = found is not None and found.mends_more_than([output.number])
        if not mends_more and self._is_foldable(output) and self._replace_next(output, is_folded=True):
            return True
        tensors, named = self._artifact.tensors, self._artifact.names_of(output)
        if not mends_more and self._artifact.is_unnamed(output) and self._replace_next(output, is_alone=True):
            return True  # one operator computes the end of this layer and the next layer
        if found is not None and not mends_more and not named and self._is_input(found.match, output):
            found = None  # The artifact uses this input directly; the output of the layer has another size there.
        if found is None:
            if not named and not self._artifact.is_gone(output) and self._replace_next(output):
                return True
            if named:
                (name,) = named
                self._add(output, self._fault(output).with_sighting(held_in=name, held=tensors.arrays[name]))
                return False
            self._absent.append(output)
            return True
        actual = tensors.in_shape(found.match, output.array.shape)
        fault = self._fault(output, found.match).with_sighting(actual=actual)
        fault = replace(fault, unsure=self._unsure(output, found.match))
        fault = with_surroundings(fault, output, self._case, tensors)
        self._add(output, fault)
        self._artifact.replace(found.match, output.array)
        return True

    def _explaining(self, output: RecordedOutput, found: Location | None) -> Location | None:
        """Returns the location whose values Keras' later layers turn into the artifact's outputs; else the one found.

        A right output also mends a tensor before an operation that the artifact adds, such as a limit of the output.
        A tensor that differs from the output in a right case is not its location.
        """
        if found is None or not found.is_mended or len(found.way) > 1 or self._explains(output, found.match):
            return found
        tensors = self._artifact.tensors
        others = (each for each in tensors.nearest(output.array) if each.tensor != found.match.tensor)
        for match in filter(partial(self._explains, output), itertools.islice(others, _MOST_CANDIDATES)):
            other = self._artifact.put([output], [match])
            if other is not None and other.is_mended:
                return other
        return found

    def _explains(self, output: RecordedOutput, match: TensorMatch) -> bool:
        """Whether Keras gives the artifact's wrong outputs if a layer's output has the values of a tensor."""
        fault = self._fault(output, match)
        right = None if self._right_case is None else self._right_case.fault(fault, ())
        if right is not None and right.actual is not None and distance(right.actual, right.expected) > right.tolerance:
            return False
        tensors, expected = self._artifact.tensors, self._case.expectation.outputs or {}
        held = tensors.in_shape(match, output.array.shape).astype(output.array.dtype)
        given = self._case.outputs_after(output, held)
        names = [name for name in given if name in tensors.arrays]
        off = max((distance(tensors.arrays[name], expected[name]) for name in names), default=0.0)
        return all(distance(tensors.arrays[name], given[name]) <= _NEARER * off for name in names)

    def _is_input(self, match: TensorMatch, output: RecordedOutput) -> bool:
        """Whether a tensor has the layer's input, by the name of its source or by its values."""
        sources = (self._artifact.matches[number] for number in output.sources)
        if any(source is not None and source.tensor == match.tensor for source in sources):
            return True
        held = self._artifact.tensors.in_shape(match, output.array.shape)
        given = (array for array in output.call.inputs if array.shape == held.shape)
        return any(distance(held, array) <= loose_tolerance(array) for array in given)

    def _fault(self, output: RecordedOutput, match: TensorMatch | None = None) -> LayerFault:
        sizes = self._case.probe.sizes(self._case.inputs)
        calls = dict.fromkeys(each.call.path for each in self._outputs if each.call.layer is output.call.layer)
        sources = tuple(map(partial(self._source, output.number), output.call.inputs))
        around = Surroundings(sizes=sizes, calls=tuple(calls), sources=sources)
        return LayerFault(output.call, output.index, output.tolerance, Sighting(location=match), around)

    def _source(self, number: int, given: Array) -> str:
        """Returns the earlier layer, or the input of the model, that an array comes from."""
        before = ((each.layer, each.array) for each in reversed(self._outputs[:number]))
        known = itertools.chain(before, self._case.inputs.items())
        same = (name for name, array in known if array.shape == given.shape and np.array_equal(array, given))
        return next(same, "")

    def _replace_next(self, output: RecordedOutput, *, is_folded: bool = False, is_alone: bool = False) -> bool:
        """Replaces the tensor of the next layer's output, if the layer has no tensor of its own.

        If `is_alone`, that must correct the outputs of the model.
        """
        after = self._artifact.consumers(output)
        location = self._artifact.locate(after[0]) if len(after) == 1 else None
        if location is None or not location.mends_more_than([after[0].number]):
            return False
        if is_alone and not location.is_mended:
            return False
        actual = self._artifact.tensors.in_shape(location.match, after[0].array.shape)
        through = self._fault(after[0], location.match).with_sighting(actual=actual)
        fault = self._fault(output, location.match if is_folded else None)
        fault = fault.with_sighting(kind="folded" if is_folded else "downstream", through=through)
        self._add(output, fault)
        self._artifact.replace(location.match, after[0].array)
        return True

    def _add(self, output: RecordedOutput, fault: LayerFault) -> None:
        layers = dict.fromkeys(each.layer for each in self._absent)
        absent = tuple(layer for layer in layers if layer != fault.layer)
        self._absent.clear()
        self._faults.append((output, replace(fault, absent=absent)))

    def _unsure(self, output: RecordedOutput, match: TensorMatch) -> tuple[LayerFault, ...]:
        """Returns earlier layers that may be at fault instead.

        They are the layers whose outputs were matched by values alone, unless a later layer's output is right. They
        also are the layers at fault whose correct outputs change nothing at this tensor.
        """
        was, now = (tensors.arrays[match.tensor] for tensors in (self._before, self._artifact.tensors))
        replaced = {each.number for each, _ in self._faults} if np.array_equal(was, now, equal_nan=True) else set()
        sources = [self._outputs[number] for number in output.sources]
        unsure = [each for each in sources if each.number in replaced or not self._is_in_use(each)]
        return tuple(map(self._fault, unsure))

    def _is_in_use(self, output: RecordedOutput) -> bool:
        """Whether the artifact uses an output: its tensor is named, or a later layer's output is right.

        Tensors with equal values may be off the path of the computation.
        """
        after = (self._artifact.matches[each.number] for each in self._artifact.consumers(output))
        return bool(self._artifact.names_of(output)) or any(match is not None for match in after)

    def _is_foldable(self, output: RecordedOutput) -> bool:
        """Whether an exporter may have folded the normalization after a layer into the layer's weights."""
        after = [each for each in self._artifact.consumers(output) if self._artifact.matches[each.number] is None]
        return not self._artifact.names_of(output) and any(
            is_foldable(output.call.layer, each.call.layer) for each in after
        )

    def _proof(self) -> Proof | None:
        if not self._artifact.replaced:
            return None
        shown = [fault if fault.folded else fault.through or fault for _, fault in self._faults]
        layers = dict.fromkeys(fault.call.path for fault in shown if fault.tensor is not None)
        return Proof(tuple(layers), *self._artifact.outputs_pass())

    def _result(self, output: RecordedOutput, match: TensorMatch | None, differs: bool) -> LayerResult:
        """Returns the result of a layer in the unchanged artifact; `match` is the tensor that has its output."""
        path = output.call.path
        if match is not None:
            return LayerResult(path, match.tensor, match.difference, output.tolerance, differs=False)
        fault = next((fault for each, fault in self._faults if each.number == output.number), None)
        mended = self._artifact.matches[output.number]
        if fault is None and not differs:
            return LayerResult(path, None, float("inf"), output.tolerance, differs=False)
        known = fault.tensor if fault is not None else None if mended is None else mended.tensor
        named = {known} if known else self._artifact.names_of(output)
        expected = fault.folded.expected if fault is not None and fault.folded is not None else output.array
        held = next(iter(self._before.with_size(named, expected)), None)
        tensor, difference = (None, float("inf")) if held is None else (held.tensor, held.difference)
        return LayerResult(path, tensor, difference, output.tolerance, True, originates_here=fault is not None)
