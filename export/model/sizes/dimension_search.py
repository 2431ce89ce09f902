"""The search for the names of a model's dynamic dimensions, their equality and their valid sizes.

Keras and TensorFlow describe every dynamic dimension by `None`. The search changes sizes separately and in pairs. If
the model accepts other sizes of two dimensions only when both change, the dimensions have one name.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, NamedShapes, SizeRange
from keras_pe.export.model.sizes.ranges import find_range, find_step
from keras_pe.export.model.watch.nested_arguments import PartialShape, Shape, StaticShape

Axis = tuple[int, int]  # the number of the input, the number of its axis
Takes = Callable[[Sequence[PartialShape]], bool]

# The first sizes suit, in turn: short texts and small images; odd sizes; encoders with skip connections; images in
# patches; short tables; frames of sound.
FIRST = (24, 67, 96, 224, 6, 4096)
_BATCH = 5  # differs from every first size: with equal sizes, the search could not distinguish the two dimensions
_OTHER_BATCHES = (12, 1)  # for a model that accepts only pairs or groups of rows, or only one row
_APART = ((True, True), (False, True), (False, False))  # whether batches, and other dimensions, are separate


def find_dimensions(
    shapes: Sequence[Shape],
    takes: Takes,
    given: Mapping[str, Sequence[int]],
    *,
    table_sizes: Callable[[], Sequence[int]] = tuple,
    examples: Sequence[Sequence[StaticShape]] = (),
    runs: tuple[Sequence[StaticShape], Takes] | None = None,
    weight_sizes: Sequence[int] = (),
) -> Iterator[NamedShapes]:
    """Yields names and ranges: `batch`, `height`, `width`, `length`, `length_2`, ...

    First, as many axes as possible have separate names, since the shapes of a loop do not show which axes must agree.
    Then all batches have one name, and at last all other dimensions have one name too.

    Args:
        shapes: The shape of each input, with `None` or the caller's name for a dynamic dimension.
        takes: Returns whether the model accepts shapes. `None` is an unknown size.
        given: The caller's sizes of each dimension, by its future name.
        table_sizes: Returns the sizes of tables, such as position embeddings, that may end. Called after `takes`.
        examples: Valid shapes, which the search tries before the first sizes.
        runs: Shapes at which the model runs, and a function that returns whether the model runs at others. If passed,
            dimensions are independent only if the model runs with different sizes of them.
        weight_sizes: The sizes of the model's weights, which the search tries after the first sizes.

    Raises:
        UnknownSizesError: If the model refuses all tried sizes.
    """
    ranks = sorted({len(shape) for shape in shapes if shape and shape[0] is None})
    for least_rank in (0, *(rank + 1 for rank in ranks)):
        try:
            search = _Search(shapes, takes, given, examples, runs, weight_sizes, table_sizes, least_rank)
            break
        except UnknownSizesError as error:
            if error.asks_for_a_value or least_rank > max(ranks, default=0):
                raise
    last, tables = None, table_sizes()
    for separation in _APART:
        groups = search.groups(*separation)
        ranges = search.ranges(groups, tables)
        if last is None and not runs and search.move_beyond(ranges):
            groups = search.groups(*separation)
            ranges = search.ranges(groups, tables)
        names = {axis: name for name, (_, axes) in groups.items() for axis in axes}
        named = [
            tuple(dim if isinstance(dim, int) else names[i, axis] for axis, dim in enumerate(shape))
            for i, shape in enumerate(shapes)
        ]
        dimensions = {name: Dimension(kind, name, ranges[name]) for name, (kind, _) in groups.items()}
        found = NamedShapes(named, dimensions)
        if found != last:
            yield found
        last = found


class _Search:
    """A search around the first sizes that the model takes."""

    def __init__(
        self,
        shapes: Sequence[Shape],
        takes: Takes,
        given: Mapping[str, Sequence[int]],
        examples: Sequence[Sequence[StaticShape]],
        runs: tuple[Sequence[StaticShape], Takes] | None,
        weight_sizes: Sequence[int],
        table_sizes: Callable[[], Sequence[int]],
        least_rank: int,
    ) -> None:
        """Finds the first sizes. An input with fewer axes than `least_rank` has no batch axis."""
        self._shapes, self._takes, self._given = shapes, takes, given
        self._batches: list[Axis] = []
        self._others: list[Axis] = []
        self._named: dict[str, list[Axis]] = {}  # by the caller
        for i, shape in enumerate(shapes):
            for axis, dim in enumerate(shape):
                if isinstance(dim, str):
                    self._named.setdefault(dim, []).append((i, axis))
                elif dim is None:
                    is_batch = axis == 0 and len(shape) >= least_rank
                    (self._batches if is_batch else self._others).append((i, axis))
        named_batches = (axes for name, axes in self._named.items() if self._kind_of(name) is Kind.BATCH)
        self._all_batches = {*self._batches, *itertools.chain(*named_batches)}
        self._axes = [*self._batches, *self._others, *itertools.chain(*self._named.values())]
        self._runs = runs[1] if runs else takes
        self._base = self._at(runs[0]) if runs else self._first_taken(weight_sizes, table_sizes, examples)

    def groups(self, batches_apart: bool, others_apart: bool) -> dict[str, tuple[Kind, list[Axis]]]:
        """Returns the kind of each dimension and its axes, by name."""
        groups = {name: (self._kind_of(name), axes) for name, axes in self._named.items()}
        for axes, are_apart in ((self._batches, batches_apart), (self._others, others_apart)):
            for group in self._separate_groups(axes) if are_apart else filter(None, [axes]):
                kind = Kind.BATCH if axes is self._batches else self._kind(group[0])
                names = itertools.chain([kind.value], (f"{kind}_{count}" for count in itertools.count(2)))
                groups[next(name for name in names if name not in groups)] = kind, group
        return dict(sorted(groups.items(), key=lambda item: min((axis != 0, i, axis) for i, axis in item[1][1])))

    def ranges(self, groups: Mapping[str, tuple[Kind, list[Axis]]], tables: Sequence[int]) -> dict[str, SizeRange]:
        """Returns the valid sizes of each dimension."""
        ranges = {name: SizeRange(min(own), 0, given=tuple(own)) for name, own in self._given.items() if name in groups}
        guess = SizeRange()  # the most common range
        for name, (kind, axes) in groups.items():
            if name in ranges:
                continue
            takes, known = functools.partial(self._takes_size, axes), self._base[axes[0]]
            if kind is Kind.BATCH and takes(known + 1):
                ranges[name] = SizeRange()
            else:
                guess = ranges[name] = find_range(takes, known, guess, tables)
        return ranges

    def move_beyond(self, ranges: Mapping[str, SizeRange]) -> bool:
        """Moves the search to a first size beyond short ranges; returns False if the model accepts no such size.

        The feature map of a small image may be 1 x 1, which is broadcast to the size that the model expects.
        """
        short = [own.most for own in ranges.values() if own.step and own.most and own.most < 2 * own.least]
        free = self._free(next(self._given_sizes()))
        for size in sorted(FIRST):
            if short and size > max(short) and self._takes_size(free, size):
                self._base |= dict.fromkeys(free, size)
                return True
        return False

    def _free(self, fixed: Collection[Axis]) -> list[Axis]:
        """Returns the axes without a fixed size, except for batches."""
        return [axis for axis in self._axes if axis not in self._all_batches and axis not in fixed]

    def _first_taken(
        self,
        weight_sizes: Sequence[int],
        table_sizes: Callable[[], Sequence[int]],
        examples: Sequence[Sequence[StaticShape]],
    ) -> dict[Axis, int]:
        """Returns a size for each dynamic axis."""
        for example in examples:
            if self._takes(example):
                return self._at(example)
        for base in self._bases(weight_sizes):
            if self._takes(self._static(base)):
                return base
        # A table may be shorter than every first size, and its last row may serve all positions beyond the table.
        for base in self._bases([size - short for size in table_sizes() for short in (0, 1)]):
            if self._takes(self._static(base)):
                return base
        raise UnknownSizesError

    def _bases(self, more: Sequence[int]) -> Iterator[dict[Axis, int]]:
        """Yields sizes to try: the first sizes and more. All sizes but those of batches are equal."""
        for fixed in self._given_sizes():
            batches = [axis for axis in self._axes if axis in self._all_batches and axis not in fixed]
            free = self._free(fixed)
            first = FIRST if free else FIRST[:1]
            sizes = (*first, *(more if free else ()))
            asked = [(_BATCH if size != _BATCH else _OTHER_BATCHES[0], size) for size in sizes]
            for batch, size in (*asked, *itertools.product(_OTHER_BATCHES if batches else (), first)):
                yield dict.fromkeys(batches, batch) | dict.fromkeys(free, size) | fixed

    def _given_sizes(self) -> Iterator[dict[Axis, int]]:
        """Yields the possible sizes of axes by the caller's sizes. The axes of a kind share the first size of the kind.

        If the caller passes sizes of several dimensions of a kind, sizes in the order of the axes come first. Then come
        the shared sizes. At last come no sizes, if an axis may belong to another dimension than its kind suggests.
        """
        equal = {
            axis: self._given[name][0] for name, axes in self._named.items() for axis in axes if name in self._given
        }
        in_order, counts = dict(equal), Counter[Kind]()
        for axis in (*self._batches, *self._others):
            kind = Kind.BATCH if axis in self._batches else self._kind(axis)
            counts[kind] += 1
            if first := self._given.get(kind):
                equal[axis] = first[0]
                in_order[axis] = self._given.get(f"{kind}_{counts[kind]}", first)[0]
        yield in_order
        if in_order != equal:
            yield equal
        if in_order != equal or len(self._others) > len(set(in_order.values())) > 1:
            yield {}

    def _at(self, static: Sequence[StaticShape]) -> dict[Axis, int]:
        return {(i, axis): static[i][axis] for i, axis in self._axes}

    def _kind(self, axis: Axis) -> Kind:
        return Kind.from_axis(self._shapes[axis[0]], axis[1])

    def _kind_of(self, name: str) -> Kind:
        return Kind.from_name(name, self._shapes)

    def _takes_size(self, axes: Sequence[Axis], size: int) -> bool:
        return self._takes(self._static(self._base | dict.fromkeys(axes, size)))

    def _static(self, sizes: Mapping[Axis, int]) -> list[StaticShape]:
        """Returns the shapes with sizes for the dynamic axes."""
        return self._partial(sizes)  # type: ignore[return-value]  # every axis has a size

    def _partial(self, sizes: Mapping[Axis, int]) -> list[PartialShape]:
        return [
            tuple(dim if isinstance(dim, int) else sizes.get((i, axis)) for axis, dim in enumerate(shape))
            for i, shape in enumerate(self._shapes)
        ]

    def _separate_groups(self, axes: Sequence[Axis]) -> Iterator[list[Axis]]:
        """Yields the smallest sets of axes that can change together while the other axes do not. A set has one size."""
        for known in dict.fromkeys(self._base[axis] for axis in axes):
            left = [axis for axis in axes if self._base[axis] == known]
            if known == 1 and len(left) > 1:  # a size of 1 is broadcast to any other size, and shows nothing
                yield left
                continue
            other = known
            if len(left) > 1:
                other += find_step(functools.partial(self._takes_size, left), known)
            while left:
                group = self._smallest(left, known, other)
                yield group
                left = [axis for axis in left if axis not in group]

    def _smallest(self, axes: list[Axis], known: int, other: int) -> list[Axis]:
        """Returns the smallest set with the first axis that can have another size while the rest does not change."""
        first, *others = axes

        def is_apart(group: Sequence[Axis]) -> bool:
            changed = self._static(self._base | dict.fromkeys(group, other))
            return self._takes(changed) and self._runs(changed)

        for group in ([first], *([first, axis] for axis in others)):
            if is_apart(group):
                return group
        tied = [first, *(axis for axis in others if not is_apart([axis]))]  # separate axes are not equal to any axis
        beside = {axis: size for axis, size in self._base.items() if axis not in axes} | {first: known}
        if self._takes(self._partial(beside)):  # the sizes of the others need not be known
            equal = [first, *(axis for axis in tied[1:] if not self._takes(self._partial(beside | {axis: other})))]
            if is_apart(equal):
                return equal
        # Backends other than TensorFlow replace all unknown sizes by one size. Equal inputs are neighbors, or occur
        # once in each layer.
        rows = (tied[:count] for count in range(3, len(tied)))
        steps = (tied[::step] for step in range(2, len(tied) // 2 + 1))
        return next(filter(is_apart, itertools.chain(rows, steps)), tied)
