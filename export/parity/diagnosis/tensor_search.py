"""The artifact's tensors in one case, and which of them hold given values, whatever their layout."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

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
        shape: Its shape.
        dtype: Its type.
        axes: The order in which it has the output's axes: its channels behind the batch, or its steps before it.
        difference: Its largest distance from the output.
    """

    tensor: str
    shape: tuple[int, ...]
    dtype: np.dtype
    axes: tuple[int, ...]
    difference: float


class Tensors:
    """Named arrays, searched by their values.

    Attributes:
        arrays: Every one by name.
        names: Those of the floating-point arrays, in the order of computation.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self._flat: dict[str, Array] = {}
        self._by_size: dict[int, list[str]] = {}
        for name, array in arrays.items():
            if array.size and is_float(array.dtype):
                self._by_size.setdefault(array.size, []).append(name)
        self.names = [name for names in self._by_size.values() for name in names]

    def find(self, output: Array, tolerance: float, names: Container[str]) -> TensorMatch | None:
        """Returns the nearest tensor, of the given names, that holds an output within the tolerance."""
        found = [
            match
            for axes, values in _flattened(output, _layouts(output.shape))
            for name in self._by_size.get(output.size, ())
            if name in names
            if (match := self._compare(name, values, axes, tolerance)) is not None
        ]
        return min(found, key=lambda match: match.difference, default=None)

    def holds(self, values: Array, tolerance: float) -> bool:
        """Whether a tensor has the same values in any order: what is on the way between layers may be turned."""
        return any(True for _ in self._rearranged(values, tolerance))

    def reordered(self, values: Array, tolerance: float) -> list[Array]:
        """Returns what tensors hold that have the same values, in their shape, but not in their order."""
        same = self.sized(self._rearranged(values, tolerance), values)
        matches = (match for match in same if match.difference > tolerance)
        return [self.in_shape(match, values.shape) for match in matches]

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
                found = [
                    self._compare(name, values, axes, np.inf)
                    for axes, values in _flattened(output, told or _layouts(output.shape))
                ]
                fitting = sorted((match for match in found if match is not None), key=lambda match: match.difference)
                matches += fitting if told else fitting[:1]
        return matches

    def in_shape(self, match: TensorMatch, shape: tuple[int, ...]) -> Array:
        """Returns a tensor in the shape and layout of Keras' output."""
        turned = [shape[axis] for axis in match.axes]
        return self.arrays[match.tensor].reshape(turned).transpose(np.argsort(match.axes))

    def _compare(self, name: str, values: Array, axes: tuple[int, ...], tolerance: float) -> TensorMatch | None:
        array = self._values(name)
        step = max(1, len(values) // _PROBES)
        if np.isfinite(tolerance) and not distance(array[::step], values[::step]) <= tolerance:
            return None
        difference = distance(array, values)
        if difference > tolerance:
            return None
        given = self.arrays[name]
        return TensorMatch(name, given.shape, given.dtype, axes, difference)

    def _values(self, name: str) -> Array:
        if name not in self._flat:
            self._flat[name] = self.arrays[name].astype(np.float64).ravel()
        return self._flat[name]


def in_layout(output: Array, match: TensorMatch) -> Array:
    """Returns an output of Keras as the tensor that should hold it: its layout, shape and type."""
    return output.transpose(match.axes).reshape(match.shape).astype(match.dtype)


def _layouts_told(shape: tuple[int, ...], expected: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the layouts that a shape tells, of a sequence also that of images of one row; none where it is that of no
    layout: values that are wrong must not choose."""
    turned = {axes: tuple(expected[axis] for axis in axes) for axes in _layouts(expected)}
    if len(shape) == len(expected) + 1 == 4:
        long = [size for size in shape if size != 1]
        return [axes for axes, sizes in turned.items() if [size for size in sizes if size != 1] == long]
    return [axes for axes, sizes in turned.items() if sizes == shape]


def _layouts(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the orders of axes in which an output may stand: as it is, with the channels first where it may be an
    image or a sequence, with the steps before the batch where it may be a sequence."""
    own = tuple(range(len(shape)))
    orders = [own]
    if len(shape) in (3, 4, 5) and shape[-1] > 1:
        orders.append((0, own[-1], *own[1:-1]))
    if len(shape) == 3 and shape[0] > 1 and shape[1] > 1:
        orders.append((1, 0, 2))
    return orders


def _flattened(output: Array, layouts: Iterable[tuple[int, ...]]) -> list[tuple[tuple[int, ...], Array]]:
    """Returns an output's values in each order of its axes."""
    values = output.astype(np.float64)
    return [(axes, values.transpose(axes).ravel()) for axes in layouts]
