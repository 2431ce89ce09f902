"""Searches the artifact's tensors in one case for given values, in any layout."""

import itertools
import operator
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.results import Array

_PROBES = 16  # values that are compared first, since most tensors differ
_SLACK = 4.0  # factor on the tolerance of values without a known noise floor, such as those of one operation


def loose_tolerance(values: Array) -> float:
    """Returns the tolerance of values without a known noise floor."""
    return _SLACK * STRICT.flat_tolerance(values)


@dataclass(frozen=True)
class TensorMatch:
    """A tensor that has, or should have, an output.

    Attributes:
        tensor: The name of the tensor.
        axes: The order of the output's axes in the tensor: unchanged, channels first, or steps first.
        difference: The largest difference from the output.
        copies: Other tensors with equal values, any of which the artifact may read.
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
    """Named arrays that can be searched by their values.

    Attributes:
        arrays: All arrays by name.
        names: The names of the floating-point arrays, in the order of computation.
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
        """Returns the nearest of some tensors that has an output within the tolerance."""
        return min(self._holding(output, tolerance, names), key=lambda match: match.difference, default=None)

    def _holding(self, output: Array, tolerance: float, names: Container[str]) -> Iterator[TensorMatch]:
        """Yields those of some tensors that have an output within the tolerance, in any layout."""
        for axes, values in _flatten(output, _layouts(output.shape)):
            for name in self._near(values, tolerance):
                if name in names and (match := self._compare(name, values, axes)).difference <= tolerance:
                    yield match

    def _near(self, values: Array, tolerance: float) -> list[str]:
        """Returns the tensors of equal size whose first values, and some later ones, are within the tolerance."""
        same = self._by_size.get(values.size, [])
        step = max(1, values.size // _PROBES)
        if values.size not in self._probes:
            probes = [self._values(name)[::step] for name in same]
            self._probes[values.size] = np.stack(probes) if probes else np.zeros((0, 1))
        with np.errstate(invalid="ignore"):  # `_compare` handles infinities and NaN
            is_far = (np.abs(self._probes[values.size] - values[::step]) > tolerance).any(axis=1)
        return list(itertools.compress(same, ~is_far))

    def holds(self, values: Array, tolerance: float) -> bool:
        """Whether a tensor has the values in any order, since tensors between layers may be transposed."""
        return any(True for _ in self._permutations_of(values, tolerance))

    def find_reordered(self, values: Array, tolerance: float) -> dict[str, Array]:
        """Returns tensors with equal values in another order, reshaped to `values`, by their names.

        A tensor with several possible layouts has several entries.
        """
        same = self.with_size(self._permutations_of(values, tolerance), values)
        matches = (match for match in same if match.difference > tolerance)
        return {f"{match.tensor} {match.axes}": self.in_shape(match, values.shape) for match in matches}

    def _permutations_of(self, values: Array, tolerance: float) -> Iterator[str]:
        """Yields the tensors with equal values in any order."""
        ordered = np.sort(values.astype(np.float64), axis=None)
        for name in self._by_size.get(values.size, ()):
            if distance(np.sort(self._values(name)), ordered) <= tolerance:
                yield name

    def nearest(self, output: Array) -> list[TensorMatch]:
        """Returns the tensors of an output's size, the nearest first."""
        return sorted(self.with_size(self._by_size.get(output.size, ()), output), key=lambda match: match.difference)

    def with_size(self, names: Iterable[str], output: Array) -> list[TensorMatch]:
        """Returns matches of the named tensors with the size of an output, in order.

        A tensor whose shape shows no layout has its best layout. A tensor whose shape shows several has all of them.
        """
        matches = []
        for name in names:
            if name in self.arrays and self.arrays[name].size == output.size:
                possible = _possible_layouts(self.arrays[name].shape, output.shape)
                layouts = _flatten(output, possible or _layouts(output.shape))
                found = (self._compare(name, values, axes) for axes, values in layouts)
                fitting = sorted(found, key=lambda match: match.difference)
                matches += fitting if possible else fitting[:1]
        return matches

    def in_shape(self, match: TensorMatch, shape: tuple[int, ...]) -> Array:
        """Returns a tensor in the shape and layout of Keras' output."""
        turned = [shape[axis] for axis in match.axes]
        return self.arrays[match.tensor].reshape(turned).transpose(np.argsort(match.axes))

    def with_copies(self, match: TensorMatch, shape: tuple[int, ...], right: Container[str]) -> TensorMatch:
        """Returns a match with the tensors of equal values.

        The match has no copies if the values are constant, or if one of them is a correct output elsewhere. The tensor
        itself is then correct, too.

        Args:
            match: The tensor.
            shape: The shape of Keras' output.
            right: The names of tensors that are another, correct output.
        """
        same = self._holding(self.in_shape(match, shape), 0.0, {*self.names} - {match.tensor})
        possible = ((copy, _possible_layouts(self.arrays[copy.tensor].shape, shape)) for copy in same)
        copies = {copy.tensor: copy for copy, layouts in possible if copy.axes in (layouts or [copy.axes])}
        is_distinct = np.ptp(self._values(match.tensor)) > 0 and not any(name in right for name in copies)
        return replace(match, copies=tuple(copies.values()) if is_distinct else ())

    def in_place_of(self, match: TensorMatch, output: Array) -> dict[str, Array]:
        """Returns the replacement of each tensor of an output, by name, in the tensor's layout, shape and type."""
        given = {each: self.arrays.get(each.tensor) for each in (match, *match.copies)}
        return {
            each.tensor: output.transpose(each.axes).reshape(value.shape).astype(value.dtype)
            for each, value in given.items()
            if value is not None and value.size == output.size
        }

    def _compare(self, name: str, values: Array, axes: tuple[int, ...]) -> TensorMatch:
        return TensorMatch(name, axes, distance(self._values(name), values))

    def _values(self, name: str) -> Array:
        if name not in self._flat:
            self._flat[name] = self.arrays[name].astype(np.float64).ravel()
        return self._flat[name]


def _possible_layouts(shape: tuple[int, ...], expected: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the layouts that a shape shows, possibly with adjacent axes merged or split; empty if none fits.

    Wrong values must not choose a layout.
    """
    own = set(itertools.accumulate(shape, operator.mul))
    turned = {
        axes: {*itertools.accumulate((expected[axis] for axis in axes), operator.mul)} for axes in _layouts(expected)
    }
    return [axes for axes, sizes in turned.items() if sizes <= own or own <= sizes]


def _layouts(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the possible orders of an output's axes: unchanged, channels first, or steps before the batch.

    Channels come first for images and sequences, and steps for sequences, including those of images.
    """
    own = tuple(range(len(shape)))
    orders = [own]
    if len(shape) in (3, 4, 5) and shape[-1] > 1:
        orders.append((0, own[-1], *own[1:-1]))
    if len(shape) > 2 and shape[0] > 1 and shape[1] > 1:
        orders.append((1, 0, *own[2:]))
    return orders


def _flatten(output: Array, layouts: Iterable[tuple[int, ...]]) -> list[tuple[tuple[int, ...], Array]]:
    """Returns an output's values in each order of its axes."""
    values = output.astype(np.float64)
    return [(axes, values.transpose(axes).ravel()) for axes in layouts]
