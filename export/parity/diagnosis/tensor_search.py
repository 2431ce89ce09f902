"""The artifact's tensors in one case, and which of them hold given values, whatever their layout."""

import itertools
import operator
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from keras_pe.export.comparison.law import is_float
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.results import Array

_PROBES = 16  # values that are compared first: most tensors are another one's


@dataclass(frozen=True)
class TensorMatch:
    """A tensor that holds an output, or should.

    Attributes:
        tensor: Its name.
        axes: The order in which it has the output's axes: its channels behind the batch, or its steps before it.
        difference: Its largest distance from the output.
        copies: The other tensors that hold the very same: any of them may be what is read.
    """

    tensor: str
    axes: tuple[int, ...]
    difference: float
    copies: "tuple[TensorMatch, ...]" = ()

    @property
    def tensors(self) -> set[str]:
        """The names of the tensor and its copies."""
        return {self.tensor, *(copy.tensor for copy in self.copies)}


class Tensors:
    """Named arrays, searched by their values.

    Attributes:
        arrays: Every one by name.
        names: Those of the floating-point arrays, in the order of computation.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self._flat: dict[str, Array] = {}
        self._probes: dict[int, Array] = {}
        self._by_size: dict[int, list[str]] = {}
        for name, array in arrays.items():
            if array.size and is_float(array.dtype):
                self._by_size.setdefault(array.size, []).append(name)
        self.names = [name for names in self._by_size.values() for name in names]

    def find(self, output: Array, tolerance: float, names: Container[str]) -> TensorMatch | None:
        """Returns the nearest tensor, of the given names, that holds an output within the tolerance."""
        return min(self._holding(output, tolerance, names), key=lambda match: match.difference, default=None)

    def _holding(self, output: Array, tolerance: float, names: Container[str]) -> Iterator[TensorMatch]:
        """Yields the tensors of the given names that hold an output, in whatever layout."""
        for axes, values in _flattened(output, _layouts(output.shape)):
            for name in self._near(values, tolerance):
                if name in names and (match := self._compare(name, values, axes)).difference <= tolerance:
                    yield match

    def _near(self, values: Array, tolerance: float) -> list[str]:
        """Returns the tensors of a size whose first, last and some values between are within the tolerance."""
        same = self._by_size.get(values.size, [])
        step = max(1, values.size // _PROBES)
        if values.size not in self._probes:
            probes = [self._values(name)[::step] for name in same]
            self._probes[values.size] = np.stack(probes) if probes else np.zeros((0, 1))
        with np.errstate(invalid="ignore"):  # infinities; `_compare` decides on them and on NaN
            is_far = (np.abs(self._probes[values.size] - values[::step]) > tolerance).any(axis=1)
        return list(itertools.compress(same, ~is_far))

    def holds(self, values: Array, tolerance: float) -> bool:
        """Whether a tensor has the same values in any order: what is on the way between layers may be turned."""
        return any(True for _ in self._rearranged(values, tolerance))

    def reordered(self, values: Array, tolerance: float) -> dict[str, Array]:
        """Returns what tensors hold that have the same values, in their shape, but not in their order, by their names.

        A tensor of which several layouts may be meant has as many names.
        """
        same = self.sized(self._rearranged(values, tolerance), values)
        matches = (match for match in same if match.difference > tolerance)
        return {f"{match.tensor} {match.axes}": self.in_shape(match, values.shape) for match in matches}

    def _rearranged(self, values: Array, tolerance: float) -> Iterator[str]:
        """Yields the tensors that have the same values in any order."""
        ordered = np.sort(values.astype(np.float64), axis=None)
        for name in self._by_size.get(values.size, ()):
            if distance(np.sort(self._values(name)), ordered) <= tolerance:
                yield name

    def nearest(self, output: Array) -> list[TensorMatch]:
        """Returns the tensors of an output's size, the nearest first."""
        return sorted(self.sized(self._by_size.get(output.size, ()), output), key=lambda match: match.difference)

    def sized(self, names: Iterable[str], output: Array) -> list[TensorMatch]:
        """Returns those of the named tensors that have the size of an output, in their order.

        One whose shape tells no layout stands there as it fits best; one whose shape is that of several, in each.
        """
        matches = []
        for name in names:
            if name in self.arrays and self.arrays[name].size == output.size:
                told = _layouts_told(self.arrays[name].shape, output.shape)
                layouts = _flattened(output, told or _layouts(output.shape))
                found = (self._compare(name, values, axes) for axes, values in layouts)
                fitting = sorted(found, key=lambda match: match.difference)
                matches += fitting if told else fitting[:1]
        return matches

    def in_shape(self, match: TensorMatch, shape: tuple[int, ...]) -> Array:
        """Returns a tensor in the shape and layout of Keras' output."""
        turned = [shape[axis] for axis in match.axes]
        return self.arrays[match.tensor].reshape(turned).transpose(np.argsort(match.axes))

    def with_copies(self, match: TensorMatch, shape: tuple[int, ...], right: Container[str]) -> TensorMatch:
        """Returns a match with its copies: none where one of these, and with it the tensor itself, holds what is right
        elsewhere, or where one number throughout tells nothing.

        Args:
            match: The tensor.
            shape: That of Keras' output.
            right: The names of tensors that are another output, and right.
        """
        same = self._holding(self.in_shape(match, shape), 0.0, {*self.names} - {match.tensor})
        told = ((copy, _layouts_told(self.arrays[copy.tensor].shape, shape)) for copy in same)
        copies = {copy.tensor: copy for copy, layouts in told if copy.axes in (layouts or [copy.axes])}
        is_told = np.ptp(self._values(match.tensor)) > 0 and not any(name in right for name in copies)
        return replace(match, copies=tuple(copies.values()) if is_told else ())

    def in_place_of(self, match: TensorMatch, output: Array) -> dict[str, Array]:
        """Returns an output of Keras as each tensor that should hold it, by name: in its layout, shape and type."""
        given = {each: self.arrays.get(each.tensor) for each in (match, *match.copies)}
        return {
            each.tensor: output.transpose(each.axes).reshape(held.shape).astype(held.dtype)
            for each, held in given.items()
            if held is not None and held.size == output.size
        }

    def _compare(self, name: str, values: Array, axes: tuple[int, ...]) -> TensorMatch:
        return TensorMatch(name, axes, distance(self._values(name), values))

    def _values(self, name: str) -> Array:
        if name not in self._flat:
            self._flat[name] = self.arrays[name].astype(np.float64).ravel()
        return self._flat[name]


def _layouts_told(shape: tuple[int, ...], expected: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the layouts that a shape tells, as they are or with neighboring axes joined or split; none where it is
    that of no layout: values that are wrong must not choose."""
    own = set(itertools.accumulate(shape, operator.mul))
    turned = {
        axes: {*itertools.accumulate((expected[axis] for axis in axes), operator.mul)} for axes in _layouts(expected)
    }
    return [axes for axes, sizes in turned.items() if sizes <= own or own <= sizes]


def _layouts(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the orders of axes in which an output may stand: as it is, with the channels first where it may be an
    image or a sequence, with the steps before the batch where it may be a sequence, of images too."""
    own = tuple(range(len(shape)))
    orders = [own]
    if len(shape) in (3, 4, 5) and shape[-1] > 1:
        orders.append((0, own[-1], *own[1:-1]))
    if len(shape) > 2 and shape[0] > 1 and shape[1] > 1:
        orders.append((1, 0, *own[2:]))
    return orders


def _flattened(output: Array, layouts: Iterable[tuple[int, ...]]) -> list[tuple[tuple[int, ...], Array]]:
    """Returns an output's values in each order of its axes."""
    values = output.astype(np.float64)
    return [(axes, values.transpose(axes).ravel()) for axes in layouts]
