"""Which dynamic dimensions are the same, and what each is called.

Keras and TensorFlow know a dynamic dimension only as `None`. Two inputs that must have the same length, and an output
that has the length of an input, are told apart from those that merely may have by asking: sizes are changed together
until the model takes them.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.sizes import FAR, SizeRange, end_of_tables, find_range, find_step

Shape = tuple[int | str | None, ...]
StaticShape = tuple[int, ...]
Axis = tuple[int, int]  # the number of the input, the number of its axis
KINDS = ("batch", "length")  # of a dimension: the first axis, or any other
Takes = Callable[[list[StaticShape]], bool]

# Sizes that are asked for, the likely ones first: what convolutions, encoders and their skip connections take, what
# position tables and pretrained models have, frames of sound, and last whatever else is small.
_LIKELY = (24, 67, 96, 224, 256, 6, 4, 2, 512, 1024, 384, 299, 320, 336, 448, 640, 800, 1280, 257, 1500, 3000, 4096)
_OTHERS = (16000, *range(3, 200), 225, 240, 288, 300, 331, 392, 400, 480, 518, 576, 577, 600, 768, 2048)
_BATCH = 5  # no length that is asked for: else the two would be taken to agree
_CANDIDATES = tuple(size for size in dict.fromkeys((*_LIKELY, *_OTHERS)) if size != _BATCH)
_MOST_TOGETHER = 3  # axes besides the first of which all subsets are tried
_KINDS = {4: ("length", "height", "width", "length"), 5: ("length", "length", "height", "width", "length")}


@dataclass(frozen=True)
class Dimensions:
    """The dynamic dimensions of a model's inputs.

    Attributes:
        shapes: Of the inputs, a name on each dynamic dimension.
        ranges: The sizes that each is known to take, by name.
    """

    shapes: list[tuple[int | str, ...]]
    ranges: dict[str, SizeRange]

    def static(self, sizes: Mapping[str, int]) -> list[StaticShape]:
        """Returns the shapes with sizes for the names."""
        return [tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape) for shape in self.shapes]


def find_dimensions(
    shapes: Sequence[Shape],
    takes: Takes,
    given: Mapping[str, Sequence[int]],
    *,
    apart: Collection[str] = KINDS,
    are_within_tables: Takes = lambda shapes: True,
) -> Dimensions:
    """Returns names and ranges: `batch`, `height`, `width`, `length`, `length_2`, ...

    Args:
        shapes: One an input; `None` where the dimension is dynamic, a name where the caller has given it one.
        takes: Whether the model takes these static shapes.
        given: The sizes that a dimension takes, by the name that it will have.
        apart: Of which kinds to look for dimensions that are independent. Those of another are all one.
        are_within_tables: Whether the tables of positions that the model has are as long as these shapes ask.

    Raises:
        UnknownSizesError: If the model takes no sizes that were asked for.
    """
    try:
        search = _Search(shapes, takes, given, are_within_tables, rank_one_has_batch=True)
    except UnknownSizesError:
        if not any(len(shape) == 1 and shape[0] is None for shape in shapes):
            raise
        search = _Search(shapes, takes, given, are_within_tables, rank_one_has_batch=False)
    groups = search.groups(apart)
    names = {axis: name for name, group in groups.items() for axis in group}
    named = [
        tuple(dim if isinstance(dim, int) else names[i, axis] for axis, dim in enumerate(shape))
        for i, shape in enumerate(shapes)
    ]
    return Dimensions(named, search.ranges(groups))


def unnamed_lengths(shapes: Sequence[Shape]) -> list[str]:
    """Returns the names that the dynamic dimensions will have, those of the caller and batches aside."""
    axes = ((i, axis) for i, shape in enumerate(shapes) for axis, dim in enumerate(shape) if axis and dim is None)
    return list(dict.fromkeys(_kind(shapes, axis) for axis in axes))


def name_outputs(
    rows: Sequence[tuple[Mapping[str, int], Sequence[StaticShape]]],
) -> list[tuple[int | str, ...]]:
    """Returns the shapes of the outputs: a number where it stays, an input's dimension where it follows, else `axis_1`.

    Args:
        rows: Sizes of the inputs' dimensions, and the outputs' shapes at these.
    """
    shapes = []
    for output in zip(*(shapes for _, shapes in rows), strict=True):
        shape: list[int | str] = []
        for axis, found in enumerate(zip(*output, strict=True)):
            same = (name for name in rows[0][0] if [sizes[name] for sizes, _ in rows] == list(found))
            shape.append(found[0] if len(set(found)) == 1 else next(same, f"axis_{axis}"))
        shapes.append(tuple(shape))
    return shapes


class _Search:
    """A search around sizes that the model takes, the first that were found."""

    def __init__(
        self,
        shapes: Sequence[Shape],
        takes: Takes,
        given: Mapping[str, Sequence[int]],
        are_within_tables: Takes,
        rank_one_has_batch: bool,
    ) -> None:
        self._shapes, self._takes, self._given, self._are_within_tables = shapes, takes, given, are_within_tables
        self._batches: list[Axis] = []
        self._lengths: list[Axis] = []
        self._named: dict[str, list[Axis]] = {}  # by the caller
        for i, shape in enumerate(shapes):
            for axis, dim in enumerate(shape):
                if isinstance(dim, str):
                    self._named.setdefault(dim, []).append((i, axis))
                elif dim is None:
                    is_batch = axis == 0 and (rank_one_has_batch or len(shape) > 1)
                    (self._batches if is_batch else self._lengths).append((i, axis))
        self._base = self._first_that_works()

    def groups(self, apart: Collection[str]) -> dict[str, list[Axis]]:
        """Returns the axes that are one dimension, by name."""
        groups = dict(self._named)
        for kind, axes in zip(KINDS, (self._batches, self._lengths), strict=True):
            for group in self._parted(axes) if kind in apart else filter(None, [axes]):
                name = kind if kind == "batch" else _kind(self._shapes, group[0])
                names = itertools.chain([name], (f"{name}_{count}" for count in itertools.count(2)))
                groups[next(name for name in names if name not in groups)] = group
        ordered = sorted(groups.items(), key=lambda item: min((axis != 0, i, axis) for i, axis in item[1]))
        return dict(ordered)

    def ranges(self, groups: Mapping[str, Sequence[Axis]]) -> dict[str, SizeRange]:
        """Returns the sizes that each dimension takes."""
        asked = {name: group for name, group in groups.items() if name != "batch" and name not in self._given}
        without_gaps = self._without_gaps(asked)
        ranges: dict[str, SizeRange] = {}
        for name, group in groups.items():
            guess = next(reversed(ranges.values()), None)
            ranges[name] = without_gaps.get(name) or self._range(name, group, guess)
        return ranges

    def _without_gaps(self, groups: Mapping[str, Sequence[Axis]]) -> dict[str, SizeRange]:
        """Returns the ranges of dimensions that all take any size, or any up to where a table ends; else none.

        Asked of all at once: most do, and that is soon known.
        """
        if len(groups) < 2:
            return {}
        ends = {name: end_of_tables(self._base[axes[0]], 1, self._are_within(axes)) for name, axes in groups.items()}
        largest = max(self._base[group[0]] for group in groups.values())
        small, next_ones = dict.fromkeys(groups, 1), {name: largest + 1 + i for i, name in enumerate(groups)}
        last = {name: ends[name] or size - 1 + FAR for name, size in next_ones.items()}
        for sizes in (small, next_ones, last):
            if not self._taken({axis: sizes[name] for name, group in groups.items() for axis in group}):
                return {}
        if any(end and self._taken(dict.fromkeys(groups[name], end + 1)) for name, end in ends.items()):
            return {}
        return {name: SizeRange(most=end) for name, end in ends.items()}

    def _range(self, name: str, group: Sequence[Axis], guess: SizeRange | None) -> SizeRange:
        """Returns the sizes that a dimension takes while the others stay, with those of another for a guess."""
        if name in self._given:
            return SizeRange(min(self._given[name]), 0, given=tuple(self._given[name]))
        if name == "batch" and self._taken(dict.fromkeys(group, _BATCH + 1)):
            return SizeRange()
        return find_range(
            lambda size: self._taken(dict.fromkeys(group, size)),
            self._base[group[0]],
            guess,
            self._are_within(group),
        )

    def _first_that_works(self) -> dict[Axis, int]:
        """Returns a size for each dynamic axis."""
        names = {axis: name for name, axes in self._named.items() for axis in axes}
        names |= {axis: _kind(self._shapes, axis) for axis in self._lengths}
        fixed = {axis: self._given[name][0] for axis, name in names.items() if name in self._given}
        batches = [*self._batches, *self._named.get("batch", [])]
        lengths = [*self._lengths, *(a for name, axes in self._named.items() if name != "batch" for a in axes)]
        for size in _CANDIDATES if lengths else _CANDIDATES[:1]:
            base = dict.fromkeys(batches, _BATCH) | dict.fromkeys(lengths, size) | fixed
            if self._takes(self._static(base)):
                return base
            if base.keys() == fixed.keys() | set(batches):
                break
        raise UnknownSizesError

    def _taken(self, changed: dict[Axis, int]) -> bool:
        return self._takes(self._static(self._base | changed))

    def _are_within(self, group: Sequence[Axis]) -> Callable[[int], bool]:
        return lambda size: self._are_within_tables(self._static(self._base | dict.fromkeys(group, size)))

    def _static(self, sizes: Mapping[Axis, int]) -> list[StaticShape]:
        return [
            tuple(dim if isinstance(dim, int) else sizes[i, axis] for axis, dim in enumerate(shape))
            for i, shape in enumerate(self._shapes)
        ]

    def _parted(self, axes: Sequence[Axis]) -> list[list[Axis]]:
        """Returns the smallest sets of axes that may change together while the others stay."""
        if len(axes) < 2:
            return [list(axes)] if axes else []
        other = self._other_size(axes)
        groups: list[list[Axis]] = []
        left = list(axes)
        while left:
            first, *others = left
            counts = range(min(len(others), _MOST_TOGETHER))
            subsets = ([first, *more] for count in counts for more in itertools.combinations(others, count))
            group = next((subset for subset in subsets if self._taken(dict.fromkeys(subset, other))), left)
            groups.append(group)
            left = [axis for axis in left if axis not in group]
        return groups

    def _other_size(self, axes: Sequence[Axis]) -> int:
        """Returns another size than the base's that the model takes where all the axes have it."""
        known = self._base[axes[0]]
        step = find_step(lambda size: self._taken(dict.fromkeys(axes, size)), known)
        return known + step


def _kind(shapes: Sequence[Shape], axis: Axis) -> str:
    """Returns the name of a dynamic dimension, as long as no other has it."""
    number, place = axis
    shape = shapes[number]
    kinds = _KINDS.get(len(shape), ("length",) * len(shape))
    is_channels_first = len(shape) in _KINDS and not isinstance(shape[-1], int) and isinstance(shape[1], int)
    return kinds[place - 1] if is_channels_first else kinds[place]
