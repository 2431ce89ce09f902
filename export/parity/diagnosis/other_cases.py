"""A layer at fault in the other cases of a check: what explains it in one has to explain it in each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_surroundings
from keras_pe.export.parity.diagnosis.probe import FAILURES, Probe
from keras_pe.export.parity.diagnosis.recorded_outputs import RecordedOutput, record_outputs
from keras_pe.export.parity.diagnosis.tensor_search import Tensors, in_layout
from keras_pe.export.results import Array, CaseStatus
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CASES = 8
_TELLING = 5  # positions: at the first all encodings are alike
_USUAL = 1e3  # values are below it, but for those that are drawn to be large


def other_cases(probe: Probe, first: Expectation) -> list[int]:
    """Returns the numbers of the cases that tell, but for one of them: the smallest first, and not too many."""
    usable = [
        number
        for number, (result, each) in enumerate(zip(probe.result.cases, probe.expectations, strict=False))
        if result.status != CaseStatus.SKIPPED and each is not first and not each.case.repeats and _is_finite(each)
    ]
    usable.sort(key=lambda number: sum(array.size for array in probe.expectations[number].case.inputs.values()))
    return usable[:_MOST_CASES]


class OtherCases:
    """The cases of a check but the one in which its faults were found.

    Args:
        probe: The runtime.
        reference: The model.
        first: The case in which the faults were found.
        faults: These, in the order of computation.
    """

    def __init__(
        self, probe: Probe, reference: KerasReference, first: Expectation, faults: Sequence[LayerFault]
    ) -> None:
        self._cases = [_Case(probe, reference, probe.expectations[number]) for number in other_cases(probe, first)]
        self._faults = faults

    def of(self, fault: LayerFault) -> Iterator[LayerFault]:
        """Yields a fault as it is in each other case; none in which the model does not make that call."""
        path = (fault.through or fault).call.path
        paths = [{each.call.path, (each.through or each.folded or each).call.path} for each in self._faults]
        place = next((number for number, own in enumerate(paths) if path in own), 0)
        for case in self._cases:
            found = case.fault(fault, self._faults[:place])
            if found is not None:
                yield found


class _Case:
    """What Keras and the artifact compute in one case. It is found when it is first asked for."""

    def __init__(self, probe: Probe, reference: KerasReference, expectation: Expectation) -> None:
        self._probe, self._reference, self._expectation = probe, reference, expectation
        self._runs: dict[int, Tensors] = {}

    @cached_property
    def _outputs(self) -> list[RecordedOutput]:
        self._probe.budget.check()
        return record_outputs(self._reference, self._expectation)

    def fault(self, fault: LayerFault, before: Sequence[LayerFault]) -> LayerFault | None:
        output = _find(self._outputs, fault.call.path, fault.index)
        through = None if fault.through is None else self.fault(fault.through, before)
        folded = None if fault.folded is None else self.fault(fault.folded, before)
        if output is None or (fault.through, fault.folded).count(None) != (through, folded).count(None):
            return None
        try:
            tensors = self._tensors(before)
        except FAILURES as error:
            self._probe.note("the inside of another case", error)
            return None
        actual, held, location = None, None, fault.location
        if location is not None:
            actual = tensors.arrays.get(location.tensor)
            is_sized = actual is not None and actual.size == output.array.size
            actual = tensors.in_shape(location, output.array.shape) if is_sized else None
        if fault.held_in is not None:
            held = tensors.arrays.get(fault.held_in)
        found = replace(
            fault,
            call=output.call,
            tolerance=output.tolerance,
            actual=None if folded is not None else actual,
            folded=folded,
            held=held,
            through=through,
            unsure=(),
            sizes=self._probe.sizes(self._expectation.case.inputs),
        )
        return with_surroundings(found, output, self._outputs, self._expectation.case.inputs, tensors)

    def _tensors(self, before: Sequence[LayerFault]) -> Tensors:
        """Returns the artifact's tensors, with Keras' own outputs in the place of those of the layers before."""
        if len(before) not in self._runs:
            self._probe.budget.check()
            inputs = self._expectation.case.inputs
            replaced = self._replaced(before) if before else {}
            arrays = self._probe.runner.intermediates(inputs, replaced)
            self._runs[len(before)] = Tensors({**inputs, **arrays})
        return self._runs[len(before)]

    def _replaced(self, faults: Sequence[LayerFault]) -> Arrays:
        plain, replaced = self._tensors(()), dict[str, Array]()
        for fault in faults:
            shown = fault.through or fault.folded or fault
            output = _find(self._outputs, shown.call.path, shown.index)
            held = None if shown.location is None else plain.arrays.get(shown.location.tensor)
            if output is None or shown.location is None or held is None or held.size != output.array.size:
                continue
            replaced[shown.location.tensor] = in_layout(output.array, replace(shown.location, shape=held.shape))
        return replaced


def _find(outputs: Sequence[RecordedOutput], path: str, index: int) -> RecordedOutput | None:
    """Returns an output of a call; that of an outer call that returns the very same as an inner one as its own."""
    for output in outputs:
        if output.call.path == path and output.index == index:
            return output
        for call, own in output.containers:
            if call.path == path and own == index:
                return replace(
                    output, call=call, index=own, loose_inputs=() if call.depth == 1 else output.loose_inputs
                )
    return None


def _is_finite(expectation: Expectation) -> bool:
    """Whether a case has numbers that tell: infinities and NaN are equal to too much."""
    arrays = [array for array in (expectation.outputs or {}).values() if array.dtype.kind == "f"]
    return expectation.outputs is not None and all(np.isfinite(array).all() for array in arrays)


def rank(expectation: Expectation) -> tuple[bool, bool, bool, int, int]:
    """Orders cases by how much they tell, the shorter first of those that tell as much.

    Values are usual, there are some positions to tell conventions apart, and no axis is of size 1: where one is, its
    place among the others shows in nothing.
    """
    arrays = expectation.case.inputs.values()
    sequences = [array for array in arrays if array.ndim > 2] or [array for array in arrays if array.ndim > 1]
    longest = max((array.shape[1] for array in arrays if array.ndim > 1), default=0)
    is_short = any(array.shape[1] < _TELLING for array in sequences)
    is_flat = any(1 in array.shape for array in sequences)
    numbers = [array for array in arrays if array.size and array.dtype.kind == "f"]
    is_large = any(np.abs(array).max() > _USUAL for array in numbers)
    return is_large, is_short, is_flat, longest, sum(array.size for array in arrays)
