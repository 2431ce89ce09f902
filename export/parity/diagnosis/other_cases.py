"""Finds a fault in the other cases, and the context of its call."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.recorded_cases import MOST_BEFORE, RecordedCase, RecordedOutput
from keras_pe.export.parity.diagnosis.tensor_search import Tensors, loose_tolerance
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays


def in_other_cases(
    cases: Sequence["OtherCase"], faults: Sequence[LayerFault], fault: LayerFault
) -> Iterator[LayerFault]:
    """Yields a fault in each other case in which the model makes the call, and the artifact has its inputs."""
    path = (fault.through or fault).call.path
    paths = [{each.call.path, (each.through or each).call.path} for each in faults]
    place = next((number for number, own in enumerate(paths) if path in own), 0)
    for case in cases:
        found = case.fault(fault, faults[:place])
        if found is not None:
            yield found


class OtherCase(RecordedCase):
    """The outputs of Keras and the tensors of the artifact in one case."""

    def __init__(self, probe: Probe, reference: KerasReference, expectation: Expectation) -> None:
        super().__init__(probe, reference, expectation)
        self._runs: dict[int, Tensors] = {}

    def fault(self, fault: LayerFault, before: Sequence[LayerFault]) -> LayerFault | None:
        output = self._output(fault)
        through = None if fault.through is None else self.fault(fault.through, before)
        if output is None or (through is None) != (fault.through is None):
            return None
        try:
            tensors = self._tensors(before)
        except RuntimeFailedError as error:
            self.probe.note("the inside of another case", error)
            return None
        actual, location = None, None if fault.folded else fault.location
        if location is not None:
            actual = tensors.arrays.get(location.tensor)
            is_sized = actual is not None and actual.size == output.array.size
            actual = tensors.in_shape(location, output.array.shape) if is_sized else None
        named = fault.sighting.held_in
        held = None if named is None else tensors.arrays.get(named)
        found = replace(fault, call=output.call, tolerance=output.tolerance, unsure=())
        found = found.with_sighting(actual=actual, held=held, through=through).amid(sizes=self.probe.sizes(self.inputs))
        found = with_surroundings(found, output, self, tensors)
        # A normalization of large equal values may give the layer other inputs in each runtime.
        return found if fault.around.known_inputs() <= found.around.known_inputs() else None

    def _output(self, fault: LayerFault) -> RecordedOutput | None:
        """Returns the output of a fault in this case; None if the model does not make the call."""
        path, index = fault.call.path, fault.index
        return _find(self.outputs, path, index) or self._find_unchanged(path, index)

    def _find_unchanged(self, path: str, index: int) -> RecordedOutput | None:
        """Returns an output that equals an input of its call in this case, such as values within the limits of a clip.

        `outputs` has no such output.
        """
        place = next((place for place, call in enumerate(self.calls) if call.path == path), None)
        if place is None or index >= len(self.calls[place].outputs):
            return None
        call, before = self.calls[place], {id(call) for call in self.calls[:place]}
        if not is_float(call.outputs[index].dtype) or not call.outputs[index].size:
            return None
        number = sum(id(each.call) in before for each in self.outputs)
        return RecordedOutput(number, call, index, (), loose_tolerance(call.outputs[index]))

    def _tensors(self, before: Sequence[LayerFault]) -> Tensors:
        """Returns the artifact's tensors after replacing those of the earlier faults by Keras' outputs."""
        if len(before) not in self._runs:
            self._runs[len(before)] = self.run_inside(self._replacements(before) if before else {})
        return self._runs[len(before)]

    def _replacements(self, faults: Sequence[LayerFault]) -> Arrays:
        plain, replaced = self._tensors(()), dict[str, Array]()
        for fault in faults:
            shown = fault.through or fault
            output = self._output(shown)
            if output is not None and shown.location is not None:
                replaced |= plain.in_place_of(shown.location, output.array)
        return replaced


def _find(outputs: Sequence[RecordedOutput], path: str, index: int) -> RecordedOutput | None:
    """Returns an output of a call. An outer call that returns an inner call's output has that output as its own."""
    for output in outputs:
        if output.call.path == path and output.index == index:
            return output
        for container in output.containers:
            if (container[0].path, container[1]) == (path, index):
                return output.as_of(*container)
    return None


def with_surroundings(fault: LayerFault, output: RecordedOutput, case: RecordedCase, tensors: Tensors) -> LayerFault:
    """Returns a fault with the arrays that may have replaced the layer's inputs."""
    shapes = {array.shape for array in output.call.inputs if _is_number(array)}
    nearest_first = [(each.call.path, each.array) for each in reversed(case.outputs[: output.number])]
    known = [*nearest_first, *(pair for pair in case.inputs.items() if _is_number(pair[1]))]
    before = (pair for pair in known if {pair[1].shape, (*pair[1].shape[:1], *pair[1].shape[2:])} & shapes)

    @cache
    def known_inputs() -> frozenset[int]:
        floats = ((number, each) for number, each in enumerate(output.call.inputs) if is_float(each.dtype))
        return frozenset(n for n, each in floats if tensors.find(each, loose_tolerance(each), set(tensors.names)))

    @cache
    def reordered(number: int) -> Mapping[str, Array]:
        array = output.call.inputs[number]
        is_telling = is_float(array.dtype) and array.size > 1
        return tensors.find_reordered(array, loose_tolerance(array)) if is_telling else {}

    nearest = dict(itertools.islice(before, MOST_BEFORE))
    made_by, within = case.makers_of(output.call), case.code_before(output.call)
    fault = fault.amid(loose=output.loose_inputs, before=nearest, made_by=made_by, within=within)
    return fault.amid(known_inputs=known_inputs, reordered=reordered)


def _is_number(array: Array) -> bool:
    return is_float(array.dtype) or array.dtype.kind in "iu"
