"""Finds the operation inside a layer that is at fault: its operands agree with the artifact, but its result differs."""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.tolerance import is_fill_value
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.code_graph import reach
from keras_pe.export.parity.diagnosis.inside_calls import Tape
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch, Tensors, loose_tolerance
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CANDIDATES = 8  # tensors that are tried as the result of an operation
_MOST_POSSIBLE = 32  # tensors that an edit of an operation may give
_MOST_OPERATIONS = 8  # wrong operations in one layer
_NEAREST = 8.0  # a result this many times as far from a tensor as another one has another tensor
_ROUNDING = 2.0**-20  # the difference of a tensor from its own result, relative to the largest value
_MOST_FURTHER = 32  # replacements to try after one that corrects a part of the later results

_Held = list[str | bool | None]
"""The tensor with each operation's result; False without one, None if a tensor would prove nothing."""


@dataclass(frozen=True)
class Suspects:
    """The operations of a call that may be at fault, by their numbers.

    Attributes:
        located: The operations that are certainly at fault, each with the replaced tensors by name: Keras' result in a
            tensor of the artifact corrects the later results.
        first: The artifact's tensor of the first of them that was located, and then other tensors of its size. Two
            steps of a loop may have exchanged tensors.
        unseen: The operations without their own tensor that only lead to operations at fault. The fault of a located
            operation, or of the layer, may be theirs.
        wrong: All operations that the artifact gets wrong, including those that follow from others.
        missing: The operations without a tensor that should have one. All of them are right if all later ones are.
        tensors: The tensors of the other operations' results.
    """

    located: Mapping[int, Arrays]
    first: Sequence[Array]
    unseen: Sequence[int]
    wrong: Sequence[int]
    missing: Sequence[int]
    tensors: Mapping[int, str]


class OperationWalk:
    """A pass through the operations of one call in the artifact.

    Args:
        case: The case in which the layer is at fault.
        fault: The layer.
        tape: The operations of its call.
        replaced: Replacements of tensors that correct everything before the layer.
    """

    def __init__(self, case: RecordedCase, fault: LayerFault, tape: Tape, replaced: Mapping[str, Array]) -> None:
        self._case, self._fault, self._tape = case, fault, tape
        self._replaced: Arrays = dict(replaced)
        self._count = len(tape.operations)
        self._results = [[as_array(each) for each in operation.outputs] for operation in tape.operations]
        self._tells = [self._is_telling(number) for number in range(self._count)]
        self._tensors = case.run_inside(self._replaced)
        self._names = self._names_after_inputs(self._tensors)
        self._plain = self._held = self._holders(self._tensors)
        self._wrong = self._suspicious(self._held, self._tensors)
        self._located: dict[int, Arrays] = {}
        self._shown: list[Array] = []
        self._is_done = False

    def suspects(self, most: int = _MOST_OPERATIONS) -> Suspects:
        """Returns the operations that may be at fault, after locating up to a number of them."""
        while len(self._located) < most and not self._is_done:
            left = [n for n in self._suspicious(self._held, self._tensors) if n not in self._located]
            found = self._locate(left, self._held, self._tensors)
            if found is None:
                self._is_done = True
                break
            number, match, put, after = found
            self._shown = self._shown or self._possible_values(number, match, self._held, self._tensors)
            self._located[number], self._tensors = put, after
            self._replaced |= put
            self._held = self._holders(after)
        unseen = self._unseen_before(self._located, self._plain) if self._located else self._wrong
        names = {number: name for number, name in enumerate(self._plain) if isinstance(name, str)}
        missing = [number for number, name in enumerate(self._plain) if name is False]
        return Suspects(dict(self._located), self._shown, unseen, self._wrong, missing, names)

    def _unseen_before(self, located: Mapping[int, Arrays], held: _Held) -> list[int]:
        """Returns the operations without their own tensor that lead to the located ones."""

        def unseen_sources(number: int) -> list[int]:
            return [each for each, _ in self._tape.sources(number) if each >= 0 and not isinstance(held[each], str)]

        return sorted(reach(located, unseen_sources) - located.keys())

    def _names_after_inputs(self, tensors: Tensors) -> set[str]:
        """Returns the tensors that the artifact computes after the layer's first input.

        An earlier tensor may have equal values, such as tanh(x) of an earlier layer where this one has artanh(tanh(x)).
        """
        order = list(tensors.arrays)
        found = [_find(as_array(each), tensors, tensors.names) for each in self._tape.inputs]
        first = min((order.index(each.tensor) for each in found if each), default=-1) if all(found) else -1
        return set(order[first + 1 :])

    def _holders(self, tensors: Tensors) -> _Held:
        """Returns the tensor of each operation's result.

        A tensor has one result. If it is almost another result, too, it proves the nearest of them.
        """
        found = {number: self._match(number, tensors) for number in range(self._count) if self._tells[number]}
        least = dict[str, float]()
        for each in filter(None, found.values()):
            least[each.tensor] = min(each.difference, least.get(each.tensor, np.inf))
        held: _Held = [None] * self._count
        for number, match in found.items():
            rounding = _ROUNDING * float(np.abs(self._results[number][0]).max())
            is_nearest = match is not None and match.difference <= max(_NEAREST * least[match.tensor], rounding)
            held[number] = match.tensor if match is not None and is_nearest else False
        return held

    def _match(self, number: int, tensors: Tensors) -> TensorMatch | None:
        """Returns the tensor with an operation's first result, if the artifact has all its results."""
        found = [_find(each, tensors, self._names) for each in self._results[number]]
        return found[0] if all(found) else None

    def _is_telling(self, number: int) -> bool:
        """Whether a tensor with the values of a result proves the operation right.

        It does not if the values are constants, are all equal, or are an operand's values in order. It also does not
        beside the large values of a mask, since the tolerance of such a tensor is above its other values.
        """
        results = self._results[number]
        if not all(is_float(each.dtype) and each.size for each in results) or not self._tape.depends_on_inputs(number):
            return False
        if any(is_fill_value(each).any() for each in results):
            return False
        operands = [as_array(each) for each in self._tape.operations[number].operands]
        flat = [each.ravel() for each in operands]
        is_rearranged = any(np.array_equal(result.ravel(), operand) for result in results for operand in flat)
        return not is_rearranged and any(np.ptp(each.astype(np.float64)) > 0 for each in results)

    def _suspicious(self, held: _Held, tensors: Tensors) -> list[int]:
        """Returns the operations without a tensor in the artifact whose consumers are wrong as well.

        A right consumer that returns integers or booleans, such as an index, proves nothing, since these hide errors.
        """
        if self._tape.source(self._tape.outputs[self._fault.index]) is None:
            return list(range(self._count))  # a library's code makes the output of the user's results
        is_right = self._is_right(tensors)
        found = set[int]()
        for number in reversed(range(self._count)):
            consumers = self._tape.consumers(number)
            smooth = [n for n in consumers if all(is_float(each.dtype) for each in self._results[n])]
            leads = [each in found for each in smooth or consumers]
            leads += [not is_right] if self._tape.is_output(number) else []
            if leads and not isinstance(held[number], str) and (any if held[number] is None else all)(leads):
                found.add(number)
        return sorted(found)

    def _is_right(self, tensors: Tensors) -> bool:
        """Whether the artifact has the layer's output."""
        expected, location = self._fault.expected, self._fault.location
        if location is None or location.tensor not in tensors.arrays:
            return tensors.find(expected, self._fault.tolerance, set(tensors.names)) is not None
        if tensors.arrays[location.tensor].size != expected.size:
            return False
        return distance(tensors.in_shape(location, expected.shape), expected) <= self._fault.tolerance

    def _locate(
        self, numbers: Sequence[int], held: _Held, tensors: Tensors
    ) -> tuple[int, TensorMatch, Arrays, Tensors] | None:
        """Returns an operation, its tensor, the replaced tensors, and all tensors after the replacement.

        With the correct result in that tensor, later results must become right, and right ones must stay right. The
        first operation that corrects the layer's output counts, or else the one that corrects most results. A tensor
        of a later operation may correct a few results by chance.
        """
        best, most, tries = None, 0, 0
        single = (number for number in numbers if held[number] is not None and len(self._results[number]) == 1)
        for number, match in ((n, each) for n in single for each in self._candidates(n, held, tensors)):
            if best is not None and (tries := tries + 1) > _MOST_FURTHER:
                break
            self._case.probe.budget.check()
            put = tensors.in_place_of(match, self._results[number][0])
            try:
                after = self._case.run_inside({**self._replaced, **put})
            except RuntimeFailedError:
                continue
            now = self._holders(after)
            if not put or any(isinstance(was, str) and one is False for was, one in zip(held, now, strict=True)):
                continue
            if self._is_right(after):
                return number, match, put, after
            mended = {each for each in range(self._count) if held[each] is False and isinstance(now[each], str)}
            if len(mended) > most and not mended.isdisjoint(self._readers(number)):
                best, most = (number, match, put, after), len(mended)
        return best

    def _possible_values(self, number: int, found: TensorMatch, held: _Held, tensors: Tensors) -> list[Array]:
        """Returns the tensor that was found for a result, and the other tensors of its size without a right result."""
        result, names = self._results[number][0], set(held)
        others = (each for each in tensors.nearest(result) if each.tensor in self._names and each.tensor not in names)
        return [tensors.in_shape(each, result.shape) for each in (found, *itertools.islice(others, _MOST_POSSIBLE))]

    def _readers(self, number: int) -> set[int]:
        """Returns the operations that read a result, directly or through operations that prove nothing."""
        consumers = self._tape.consumers
        return reach(consumers(number), lambda each: [] if self._tells[each] else consumers(each))

    def _candidates(self, number: int, held: _Held, tensors: Tensors) -> list[TensorMatch]:
        """Returns the tensors that may have a result: that of the layer's output, then the nearest of equal size.

        Only the first of several tensors with equal values counts, since it determines the others.
        """
        free = self._names.difference((name for name in held if isinstance(name, str)), self._replaced)
        result = self._results[number][0]
        possible = [
            each for each in tensors.nearest(result) if each.tensor in free and _is_certain(each, result, tensors)
        ]
        order = {name: place for place, name in enumerate(tensors.arrays)}
        distinct = dict[bytes, TensorMatch]()
        for match in sorted(possible, key=lambda match: order[match.tensor]):
            distinct.setdefault(tensors.arrays[match.tensor].tobytes(), match)
        is_output = self._tape.is_output(number)
        ranked = sorted(
            distinct.values(), key=lambda each: (is_output and each.tensor != self._fault.tensor, each.difference)
        )
        return ranked[:_MOST_CANDIDATES]


def _find(result: Array, tensors: Tensors, names: Container[str]) -> TensorMatch | None:
    """Returns the one of some tensors that has a result."""
    found = tensors.find(result, loose_tolerance(result), names)
    return found if found is not None and _is_certain(found, result, tensors) else None


def _is_certain(match: TensorMatch, result: Array, tensors: Tensors) -> bool:
    """Whether a tensor has the axes of a result in order, or in another order that its shape proves."""
    is_plain = match.axes == tuple(range(result.ndim))
    return is_plain or tensors.arrays[match.tensor].shape != result.shape
