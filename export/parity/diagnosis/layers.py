"""Where: the layers at fault, found by putting Keras' own outputs in the place of the artifact's, one after another."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from keras_pe.export.comparison.law import STRICT
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.seconds import OutOfTimeError
from keras_pe.export.model.stored_weights import is_foldable
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_surroundings
from keras_pe.export.parity.diagnosis.other_cases import OtherCases
from keras_pe.export.parity.diagnosis.output_locations import OutputLocations
from keras_pe.export.parity.diagnosis.probe import Probe
from keras_pe.export.parity.diagnosis.recorded_outputs import RecordedOutput, record_outputs
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch, Tensors
from keras_pe.export.results import Array, LayerResult, Proof

_MOST_FAULTS = 32
_SLACK = 4.0  # for values of which no noise is known


@dataclass(frozen=True)
class LayerTrace:
    """What following the model through the artifact has found.

    Attributes:
        layers: Layer by layer; empty where the artifact cannot be read inside, or there are no layers.
        faults: The layers at fault, in the order of computation.
        others: Returns a fault as it is in each other case.
        proof: What the artifact returns with their outputs replaced; None where nothing was.
        is_sound_inside: Whether the artifact, read inside and without optimizations, returns what Keras returns.
    """

    layers: tuple[LayerResult, ...] = ()
    faults: tuple[LayerFault, ...] = ()
    others: Callable[[LayerFault], Iterable[LayerFault]] = lambda fault: ()
    proof: Proof | None = None
    is_sound_inside: bool = False


def trace_faults(probe: Probe, reference: KerasReference, expectation: Expectation) -> LayerTrace:
    """Returns where the artifact leaves the model's way in one case.

    Going forward, the first layer whose output the artifact does not hold is at fault (the deepest one, because inner
    layers return before outer ones). Keras' own output is put in its place in the artifact, and everything after it is
    looked at again: it must agree, or is a fault of its own.
    """
    if "intermediates" not in probe.runner.capabilities:
        return LayerTrace()
    outputs = record_outputs(reference, expectation)
    if not outputs:
        return LayerTrace()
    trace = _Walk(probe, expectation, outputs).trace()
    return replace(trace, others=OtherCases(probe, reference, expectation, trace.faults).of)


class _Walk:
    """The way through the model in one case, and the faults that were met on it."""

    def __init__(self, probe: Probe, expectation: Expectation, outputs: list[RecordedOutput]) -> None:
        self._probe = probe
        self._artifact = OutputLocations(probe, expectation, outputs)
        self._inputs = expectation.case.inputs
        self._outputs = outputs
        self._faults: list[tuple[RecordedOutput, LayerFault]] = []
        self._merged = set[int]()
        self._absent: list[RecordedOutput] = []  # of which no fault is known yet that they follow from
        self._passed_over = set[int]()

    def trace(self) -> LayerTrace:
        plain, before, differing = self._artifact.matches, self._artifact.tensors, self._artifact.differing
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
            self._probe.not_reached.append(f"the layers after the first {len(self._faults)} at fault")
        if self._absent:
            self._add(self._absent[0], self._fault(self._absent[0]))
        blamed = {output.number: output for output, _ in self._faults}
        outputs = [blamed.get(each.number, each) for each in self._outputs]
        differing = differing - self._merged
        results = tuple(self._result(each, plain[each.number], before, each.number in differing) for each in outputs)
        faults = tuple(fault for _, fault in self._faults)
        return LayerTrace(results, faults, proof=self._proof(), is_sound_inside=is_sound)

    def _first_that_differs(self) -> RecordedOutput | None:
        done = {output.number for output, _ in self._faults} | self._passed_over
        left = self._artifact.differing - done
        return next((output for output in self._outputs if output.number in left), None)

    def _is_merged(self, output: RecordedOutput) -> bool:
        """Whether a layer is only a part of one that differs, of which no tensor tells: both may be one operator."""
        differing = [self._outputs[number].call.path for number in self._artifact.differing]
        whole = next((path for path in differing if output.call.path.startswith(f"{path}/")), None)
        if whole is None or self._artifact.named(output):
            return False
        location = self._artifact.locate(output)
        parts = [each.number for each in self._outputs if each.call.path.startswith(f"{whole}/")]
        return location is None or not location.mends_more_than(parts)

    def _enclosing(self, output: RecordedOutput) -> RecordedOutput:
        """Returns the layer around another one that was given something wrong: what is between its parts is its own."""
        path = output.call.path.rpartition("/")[0]
        while path and not all(self._is_given(array) for array in output.loose_inputs):
            own = next((pair for pair in output.containers if pair[0].path.partition("#")[0] == path), None)
            outer = (each for each in self._outputs if each.call.path.partition("#")[0] == path)
            if own is not None:
                loose = () if own[0].depth == 1 else output.loose_inputs
                output = replace(output, call=own[0], index=own[1], loose_inputs=loose)
            else:
                output = next((each for each in outer if each.number > output.number), output)
            path = path.rpartition("/")[0]
        return output

    def _is_given(self, array: Array) -> bool:
        return self._artifact.tensors.holds(array, _SLACK * STRICT.flat_tolerance(array))

    def _replace(self, output: RecordedOutput) -> bool:
        """Puts Keras' output in the place of the tensor that should hold it; False where that has another size.

        A layer of which there is no tensor at all follows from what is found to be wrong after it: it may be left out.
        """
        found = self._artifact.locate(output)
        if found is None or not found.mends_more_than([output.number]):
            after = self._folded_after(output)
            location = None if after is None else self._artifact.locate(after)
            if after is not None and location is not None and location.mends_more_than([after.number]):
                fault = self._fault(output, location.match)
                actual = self._artifact.tensors.in_shape(location.match, after.array.shape)
                fault = replace(fault, folded=replace(self._fault(after, location.match), actual=actual))
                return self._put(output, fault, after.array, location.match)
        tensors = self._artifact.tensors
        is_known = bool(self._artifact.named(output)) or self._artifact.is_gone(output)
        if found is None and not is_known and self._replace_next(output):
            return True
        if found is None and (name := next(iter(self._artifact.named(output)), None)) is not None:
            self._add(output, replace(self._fault(output), held_in=name, held=tensors.arrays[name]))
            return False
        if found is None:
            self._absent.append(output)
            return True
        actual = tensors.in_shape(found.match, output.array.shape)
        fault = replace(self._fault(output, found.match), actual=actual, unsure=self._unsure(output))
        fault = with_surroundings(fault, output, self._outputs, self._inputs, tensors)
        return self._put(output, fault, output.array, found.match)

    def _fault(self, output: RecordedOutput, match: TensorMatch | None = None) -> LayerFault:
        sizes = self._probe.sizes(self._inputs)
        calls = dict.fromkeys(each.call.path for each in self._outputs if each.call.layer is output.call.layer)
        return LayerFault(output.call, output.index, output.tolerance, match, sizes=sizes, calls=tuple(calls))

    def _replace_next(self, output: RecordedOutput) -> bool:
        """Puts Keras' output in the place of what the next layer returns, where no tensor has a layer's own size."""
        after = self._artifact.consumers(output)
        location = self._artifact.locate(after[0]) if len(after) == 1 else None
        if location is None or not location.mends_more_than([after[0].number]):
            return False
        seen = after[0]
        actual = self._artifact.tensors.in_shape(location.match, seen.array.shape)
        through = replace(self._fault(seen, location.match), actual=actual)
        fault = replace(self._fault(output), through=through)
        return self._put(output, fault, seen.array, location.match)

    def _put(self, output: RecordedOutput, fault: LayerFault, array: Array, match: TensorMatch) -> bool:
        self._add(output, fault)
        self._artifact.replace(match, array)
        return True

    def _add(self, output: RecordedOutput, fault: LayerFault) -> None:
        layers = dict.fromkeys(each.call.path.partition("#")[0] for each in self._absent)
        absent = tuple(layer for layer in layers if layer != fault.layer)
        self._absent.clear()
        self._faults.append((output, replace(fault, absent=absent)))

    def _unsure(self, output: RecordedOutput) -> tuple[LayerFault, ...]:
        """Returns the layers before one that are known by their values alone: these may stand beside the way."""
        sources = [self._outputs[number] for number in output.sources]
        unsure = [each for each in sources if not self._artifact.named(each)]
        return tuple(map(self._fault, unsure))

    def _folded_after(self, output: RecordedOutput) -> RecordedOutput | None:
        """Returns the normalization after a layer that an exporter may have folded into its weights."""
        after = self._artifact.consumers(output)
        is_apart = (
            len(after) != 1 or bool(self._artifact.named(output)) or self._artifact.matches[after[0].number] is not None
        )
        return None if is_apart or not is_foldable(output.call.layer, after[0].call.layer) else after[0]

    def _proof(self) -> Proof | None:
        if not self._artifact.replaced:
            return None
        places = [(output.call.path, fault) for output, fault in self._faults if fault.through is None]
        places += [(fault.through.call.path, fault.through) for _, fault in self._faults if fault.through is not None]
        layers = tuple(dict.fromkeys(path for path, fault in places if fault.tensor is not None))
        return Proof(layers, *self._artifact.outputs_pass())

    def _result(
        self, output: RecordedOutput, match: TensorMatch | None, tensors: Tensors, differs: bool
    ) -> LayerResult:
        """Returns what a layer's output was in the artifact as it is: `match` where it held it."""
        path = output.call.path
        if match is not None:
            return LayerResult(path, match.tensor, match.difference, output.tolerance, differs=False)
        fault = next((fault for each, fault in self._faults if each.number == output.number), None)
        mended = self._artifact.matches[output.number]
        if fault is None and not differs:
            return LayerResult(path, None, float("inf"), output.tolerance, differs=False)
        known = fault.tensor if fault is not None else None if mended is None else mended.tensor
        named = {known} if known else self._artifact.named(output)
        expected = fault.folded.expected if fault is not None and fault.folded is not None else output.array
        held = next(iter(tensors.sized(named, expected)), None)
        tensor, difference = (None, float("inf")) if held is None else (held.tensor, held.difference)
        return LayerResult(path, tensor, difference, output.tolerance, True, originates_here=fault is not None)
