"""Which dynamic dimensions of a model's inputs are the same, what each is called, and which sizes it takes.

Keras and TensorFlow know a dynamic dimension only as `None`. The search changes sizes alone and by pairs: dimensions
that the model takes at other sizes only together have one name.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, NamedShapes, SizeRange
from keras_pe.export.model.sizes.ranges import find_range, find_step
from keras_pe.export.model.watch.nesting import PartialShape, Shape, StaticShape

Axis = tuple[int, int]  # the number of the input, the number of its axis
Takes = Callable[[Sequence[PartialShape]], bool]

# The first sizes: of short texts and small images, one that is odd, of encoders and their skip connections, of images
# in patches, of short tables, and of frames of sound.
FIRST = (24, 67, 96, 224, 6, 4096)
_BATCH = 5  # unlike every first size: else the two would be taken to agree
_OTHER_BATCHES = (12, 1)  # for a model that takes pairs of rows, or groups, or one row alone
_APART = ((True, True), (False, True), (False, False))  # whether batches are, and other dimensions


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

    The freest come first, in which axes have a name of their own wherever they may: shapes of a loop do not show which
    must agree. Then all batches are one, and then all other dimensions are as well.

    Args:
        shapes: One an input; `None` where the dimension is dynamic, a name where the caller has given it one.
        takes: Whether the model takes these shapes, in which `None` is a size that is not known.
        given: The sizes that a dimension takes, by the name that it will have.
        table_sizes: Returns the sizes of tables, such as those of positions, that may end. Called after `takes`.
        examples: Shapes that the model is known to take, which come before the first sizes.
        runs: Shapes at which the model runs, and whether it does at others: dimensions are then held to be independent
            only if it runs with them apart.
        weight_sizes: The sizes of the model's weights, which come after the first sizes and before those of tables.

    Raises:
        UnknownSizesError: If the model takes no sizes that were asked for.
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
    for apart in _APART:
        groups = search.groups(*apart)
        ranges = search.ranges(groups, tables)
        if last is None and not runs and search.move_beyond(ranges):
            groups = search.groups(*apart)
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
        """Finds the first sizes. The first axis of an input of fewer axes than `least_rank` is no batch."""
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
            for group in self._parted(axes) if are_apart else filter(None, [axes]):
                kind = Kind.BATCH if axes is self._batches else self._kind(group[0])
                names = itertools.chain([kind.value], (f"{kind}_{count}" for count in itertools.count(2)))
                groups[next(name for name in names if name not in groups)] = kind, group
        return dict(sorted(groups.items(), key=lambda item: min((axis != 0, i, axis) for i, axis in item[1][1])))

    def ranges(self, groups: Mapping[str, tuple[Kind, list[Axis]]], tables: Sequence[int]) -> dict[str, SizeRange]:
        """Returns the sizes that each dimension takes."""
        ranges = {name: SizeRange(min(own), 0, given=tuple(own)) for name, own in self._given.items() if name in groups}
        guess = SizeRange()  # what most take
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
        """Returns the axes that are no batches and have no given size."""
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
        # A table may be shorter than every first size, and its last row may stand for all positions out of reach.
        for base in self._bases([size - short for size in table_sizes() for short in (0, 1)]):
            if self._takes(self._static(base)):
                return base
        raise UnknownSizesError

    def _bases(self, more: Sequence[int]) -> Iterator[dict[Axis, int]]:
        """Yields sizes to ask for, the first ones and more; all are equal but for batches."""
        for fixed in self._given_sizes():
            batches = [axis for axis in self._axes if axis in self._all_batches and axis not in fixed]
            free = self._free(fixed)
            first = FIRST if free else FIRST[:1]
            sizes = (*first, *(more if free else ()))
            asked = [(_BATCH if size != _BATCH else _OTHER_BATCHES[0], size) for size in sizes]
            for batch, size in (*asked, *itertools.product(_OTHER_BATCHES if batches else (), first)):
                yield dict.fromkeys(batches, batch) | dict.fromkeys(free, size) | fixed

    def _given_sizes(self) -> Iterator[dict[Axis, int]]:
        """Yields the sizes of axes that the caller may have given: all of a kind have that of its first dimension.

        If the caller gave others of a kind too, each axis may have its own, in order, or none before it has a name.
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
            yield from (equal, {})

    def _at(self, static: Sequence[StaticShape]) -> dict[Axis, int]:
        return {(i, axis): static[i][axis] for i, axis in self._axes}

    def _kind(self, axis: Axis) -> Kind:
        return Kind.of_axis(self._shapes[axis[0]], axis[1])

    def _kind_of(self, name: str) -> Kind:
        return Kind.of_name(name, self._shapes)

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

    def _parted(self, axes: Sequence[Axis]) -> Iterator[list[Axis]]:
        """Yields the smallest sets of axes that may change together while the others stay: they have one size."""
        for known in dict.fromkeys(self._base[axis] for axis in axes):
            left = [axis for axis in axes if self._base[axis] == known]
            if known == 1 and len(left) > 1:  # a size of 1 is broadcast to any other: it shows nothing
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
        """Returns the smallest set with the first of some axes that may have another size while the rest stays."""
        first, *others = axes

        def is_apart(group: Sequence[Axis]) -> bool:
            changed = self._static(self._base | dict.fromkeys(group, other))
            return self._takes(changed) and self._runs(changed)

        for group in ([first], *([first, axis] for axis in others)):
            if is_apart(group):
                return group
        tied = [first, *(axis for axis in others if not is_apart([axis]))]  # what changes alone is equal to nothing
        beside = {axis: size for axis, size in self._base.items() if axis not in axes} | {first: known}
        if self._takes(self._partial(beside)):  # the sizes of the others need not be known
            equal = [first, *(axis for axis in tied[1:] if not self._takes(self._partial(beside | {axis: other})))]
            if is_apart(equal):
                return equal
        # Other backends than TensorFlow put one size in the place of all that are not known. Equal inputs stand side by
        # side, or there is one in each layer.
        rows = (tied[:count] for count in range(3, len(tied)))
        steps = (tied[::step] for step in range(2, len(tied) // 2 + 1))
        return next(filter(is_apart, itertools.chain(rows, steps)), tied)
