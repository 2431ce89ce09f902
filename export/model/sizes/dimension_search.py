"""Which dynamic dimensions of a model's inputs are the same, what each is called, and which sizes it takes.

Keras and TensorFlow know a dynamic dimension only as `None`. Two inputs that must have the same length are told apart
from those that merely may have by asking: sizes are changed together until the model takes them.
"""

import functools
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, NamedShapes, SizeRange
from keras_pe.export.model.watch.nesting import Shape, StaticShape

Axis = tuple[int, int]  # the number of the input, the number of its axis
Takes = Callable[[list[StaticShape]], bool]

# Sizes that are asked for, the likely ones first: what convolutions, encoders and their skip connections take, what
# position tables and pretrained models have, frames of sound, and last whatever else is small.
_LIKELY = (24, 67, 96, 224, 256, 6, 4, 2, 512, 1024, 384, 299, 320, 336, 448, 640, 800, 1280, 257, 1500, 3000, 4096)
_OTHERS = (16000, *range(3, 200), 225, 240, 288, 300, 331, 392, 400, 480, 518, 576, 577, 600, 768, 2048)
_BATCH = 5  # no length is as large when it is asked for: else the two would be taken to agree
_OTHER_BATCHES = (12, 64, 1)  # for a model that takes pairs of rows, or groups, or one row alone
_PATIENCE = 120.0  # seconds after which a first size is looked for among the likely ones alone
_MOST_TOGETHER = 3  # axes of which all subsets are tried
_MOST_SUBSETS = 300  # beyond which those of three are not
_APART = ((True, True), (False, True), (False, False))  # whether batches are, and other dimensions
# The size of one axis, or of all of one input, beside others of 1, and beside others of the first likely one, where no
# equal ones are taken: one or two more, as for a token of its own; places in a text of each image, of which a square is
# pooled to as many; the product of two others; an image beside a smaller one.
_LARGER = tuple((1 + more, _LIKELY[0] + more) for more in (1, 2)) + tuple(
    (times, _LIKELY[0] * times)
    for times in dict.fromkeys((*range(2, 17), _LIKELY[0], *(side**2 for side in range(5, 33))))
)

_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64, 96, 112, 128, 160, 256, 320, 512)
_TELLING = (6720, 1, 2, 32, 512, -1)  # the first is a multiple of most steps
_FAR = 210  # steps from a size that was found, where a model is asked whether there is an end
_FARTHEST = 2**20  # a size, up to which the end of a table is looked for


def find_dimensions(
    shapes: Sequence[Shape],
    takes: Takes,
    given: Mapping[str, Sequence[int]],
    *,
    table_sizes: Callable[[], Sequence[int]] = tuple,
    examples: Sequence[Sequence[StaticShape]] = (),
    runs: tuple[Sequence[StaticShape], Takes] | None = None,
    weight_sizes: Sequence[int] = (),
    patience: float = _PATIENCE,
) -> Iterator[NamedShapes]:
    """Yields names and ranges: `batch`, `height`, `width`, `length`, `length_2`, ...

    The freest come first, in which axes have a name of their own wherever they may: shapes of a loop do not tell which
    must agree. Then all batches are one, and then all other dimensions are as well.

    Args:
        shapes: One an input; `None` where the dimension is dynamic, a name where the caller has given it one.
        takes: Whether the model takes these static shapes.
        given: The sizes that a dimension takes, by the name that it will have.
        table_sizes: Returns the sizes of tables, such as those of positions, that may end. Called after `takes`.
        examples: Shapes that the model is known to take, which are asked for before the likely ones.
        runs: Shapes at which the model runs, and whether it does at others: dimensions are then held to be independent
            only if it runs with them apart.
        weight_sizes: The sizes of the model's weights, one of which a dimension may be: they are asked for early.
        patience: Seconds after which sizes that are not likely are asked for no more, where none has been taken.

    Raises:
        UnknownSizesError: If the model takes no sizes that were asked for. It says so if there were more to ask for.
    """
    end = time.monotonic() + patience
    ranks = sorted({len(shape) for shape in shapes if shape and shape[0] is None})
    for least_rank in (0, *(rank + 1 for rank in ranks)):
        try:
            search = _Search(shapes, takes, given, examples, runs, weight_sizes, end, least_rank)
            break
        except UnknownSizesError as error:
            if error.args or error.__cause__ or least_rank > max(ranks, default=0):
                raise
    last, tables = None, table_sizes()
    for apart in _APART:
        groups = search.groups(*apart)
        ranges = search.ranges(groups, tables)
        if last is None and not runs and search.has_moved_beyond(ranges):
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
    """A search around sizes that the model takes, the first that were found."""

    def __init__(
        self,
        shapes: Sequence[Shape],
        takes: Takes,
        given: Mapping[str, Sequence[int]],
        examples: Sequence[Sequence[StaticShape]],
        runs: tuple[Sequence[StaticShape], Takes] | None,
        weight_sizes: Sequence[int],
        end: float,
        least_rank: int,
    ) -> None:
        """Looks for the first sizes, until an end. The first axis of an input of fewer axes than some is no batch."""
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
        named_batches = [axes for name, axes in self._named.items() if self._kind_of(name) is Kind.BATCH]
        self._batch_axes = {*itertools.chain(self._batches, *named_batches)}
        self._runs = runs[1] if runs else takes
        self._base = self._at(runs[0]) if runs else self._first_that_works(weight_sizes, examples, end)

    def groups(self, batches_apart: bool, others_apart: bool) -> dict[str, tuple[Kind, list[Axis]]]:
        """Returns the kind of each dimension and the axes that it is, by name."""
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

    def has_moved_beyond(self, ranges: Mapping[str, SizeRange]) -> bool:
        """Goes to likely sizes beyond ranges that hardly begin, if the model takes such.

        What is left of an image may be one place there, which is broadcast to as many as the model has.
        """
        short = [own.most for own in ranges.values() if own.step and own.most and own.most < 2 * own.least]
        given = {axis for sizes in self._given_sizes() for axis in sizes}
        free = [axis for axis in self._base if axis not in self._batch_axes and axis not in given]
        for size in sorted(_LIKELY):
            if short and size > max(short) and self._takes_size(free, size):
                self._base |= dict.fromkeys(free, size)
                return True
        return False

    def _first_that_works(
        self, weight_sizes: Sequence[int], examples: Sequence[Sequence[StaticShape]], end: float
    ) -> dict[Axis, int]:
        """Returns a size for each dynamic axis."""
        for example in examples:
            if self._takes(list(example)):
                return self._at(example)
        for count, base in enumerate(self._bases(weight_sizes)):
            if count >= len(_LIKELY) and time.monotonic() > end:
                raise UnknownSizesError(
                    f"It takes none of the {count} likeliest sizes, and to ask for more takes too long"
                )
            if self._takes(self._static(base)):
                return base
        raise UnknownSizesError

    def _bases(self, weight_sizes: Sequence[int]) -> Iterator[dict[Axis, int]]:
        """Yields sizes to ask for: equal ones but for batches, then some that are a multiple of the others."""
        for fixed in self._given_sizes():
            batches = [axis for axis in self._batch_axes if axis not in fixed]
            others = itertools.chain(self._others, *self._named.values())
            free = [axis for axis in others if axis not in self._batch_axes and axis not in fixed]
            likely = _LIKELY if free else _LIKELY[:1]
            asked = [(_BATCH, size) for size in (*likely, *weight_sizes, *_OTHERS) if size != _BATCH]
            asked = asked if free else asked[:1]
            for batch, size in (*asked, *itertools.product(_OTHER_BATCHES if batches else (), likely)):
                yield dict.fromkeys(batches, batch) | dict.fromkeys(free, size) | fixed
            equal = dict.fromkeys(batches, _BATCH) | dict.fromkeys(free, _LIKELY[0]) | fixed
            of_inputs = [[axis for axis in free if axis[0] == i] for i in range(len(self._shapes))]
            larger = [[axis] for axis in free] + [axes for axes in of_inputs if 1 < len(axes) < len(free)]
            for axes, (beside_one, beside_likely) in itertools.product(larger, _LARGER):
                found = equal | dict.fromkeys(axes, beside_likely)
                if self._takes(self._static(found)):  # smaller ones tell more, if they are taken
                    few = equal | dict.fromkeys(axes, beside_one)
                    yield from (few | {one: 1} for one in free if one not in axes)
                yield found

    def _given_sizes(self) -> Iterator[dict[Axis, int]]:
        """Yields the sizes of axes that the caller may have given: all of a kind have that of its first dimension.

        Where others of a kind were given too, each axis may have its own, in order, or none before it has a name.
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
        axes = itertools.chain(self._batches, self._others, *self._named.values())
        return {(i, axis): static[i][axis] for i, axis in axes}

    def _kind(self, axis: Axis) -> Kind:
        return Kind.of_axis(self._shapes[axis[0]], axis[1])

    def _kind_of(self, name: str) -> Kind:
        return Kind.of_name(name, self._shapes)

    def _takes_size(self, axes: Sequence[Axis], size: int) -> bool:
        return self._takes(self._static(self._base | dict.fromkeys(axes, size)))

    def _static(self, sizes: Mapping[Axis, int]) -> list[StaticShape]:
        return [
            tuple(dim if isinstance(dim, int) else sizes[i, axis] for axis, dim in enumerate(shape))
            for i, shape in enumerate(self._shapes)
        ]

    def _is_apart(self, axes: Sequence[Axis], size: int) -> bool:
        changed = self._static(self._base | dict.fromkeys(axes, size))
        return self._takes(changed) and self._runs(changed)

    def _parted(self, axes: Sequence[Axis]) -> Iterator[list[Axis]]:
        """Yields the smallest sets of axes that may change together while the others stay: they have one size."""
        for known in dict.fromkeys(self._base[axis] for axis in axes):
            left = [axis for axis in axes if self._base[axis] == known]
            if known == 1 and len(left) > 1:  # which is broadcast to any other size: it tells nothing
                yield left
                continue
            other = known
            if len(left) > 1:
                other += find_step(functools.partial(self._takes_size, left), known)
            while left:
                group = self._smallest(left, other)
                yield group
                left = [axis for axis in left if axis not in group]

    def _smallest(self, axes: list[Axis], other: int) -> list[Axis]:
        """Returns the smallest set with the first of some axes that may have another size while the rest stays."""
        for subset in _subsets(axes):
            if self._is_apart(subset, other):
                return subset if len(subset) <= _MOST_TOGETHER else self._smallest(subset, other)
        return axes


def _subsets(axes: list[Axis]) -> Iterator[list[Axis]]:
    """Yields sets with the first of some axes, small ones first, and of all the large ones such as models have: one
    after the other, and one of each layer."""
    first, *others = axes
    for count in range(min(len(others), _MOST_TOGETHER)):
        if math.comb(len(others), count) <= _MOST_SUBSETS:
            yield from ([first, *more] for more in itertools.combinations(others, count))
    yield from (axes[:count] for count in range(_MOST_TOGETHER, len(axes)))
    yield from (axes[::step] for step in range(2, len(axes) // 2))


def find_range(
    takes: Callable[[int], bool], known: int, guess: SizeRange | None = None, tables: Sequence[int] = ()
) -> SizeRange:
    """Returns the range of sizes around a known one.

    Between two sizes of equal remainder that are taken, all others are held to be taken; so are all beyond the last
    that was asked for.

    Args:
        takes: Whether a size is taken.
        known: A size that is taken.
        guess: A range that it may be: the questions to confirm it are fewer.
        tables: The sizes of tables, such as those of positions, that may end far beyond the known size; least first.
    """
    if guess and guess.step and known in guess and _is_range(takes, known, guess, bool(tables)):
        return guess
    if guess and not guess.step and not any(takes(known + step) for step in _TELLING if known + step > 0):
        return SizeRange(known, 0)
    step = abs(find_step(takes, known))
    if not step:
        return SizeRange(known, 0)
    least = known - step * _last(lambda steps: takes(known - step * steps), (known - 1) // step)
    if not takes(known + 2 * step):  # the end, or one was taken by chance, as a square may be next to a square
        return SizeRange(least, step, known + step if takes(known + step) else known)
    for size in tables:
        end = known + step * ((size - known) // step)
        if end < known:
            continue
        if not takes(end):
            break
        if not takes(end + step):
            return SizeRange(least, step, end)
    farthest = _farthest(step, bool(tables))
    if takes(known + step * farthest):
        return SizeRange(least, step)
    bound = _FAR
    while bound < farthest and takes(known + step * bound):  # most tables end soon
        bound *= 2
    return SizeRange(least, step, known + step * _last(lambda steps: takes(known + step * steps), bound))


def find_step(takes: Callable[[int], bool], known: int) -> int:
    """Returns what leads from a known size to the next that is taken: up if there is one, else down, else 0.

    A step that can be taken twice comes first. One alone may be a chance: a model that rounds sizes up to multiples of
    32 takes 96 and, 28 larger, 124, which counts as 128, but not 152.
    """
    once: list[int] = []
    for step in _STEPS:
        if takes(known + step):
            if takes(known + 2 * step):
                return step
            once.append(step)
    # Where the known size is the largest. A size of 1 tells nothing: it is broadcast to any other.
    down = (-step for step in _STEPS if step < known - 1 and takes(known - step))
    return once[0] if once else next(down, 0)


def _is_range(takes: Callable[[int], bool], known: int, guess: SizeRange, has_tables: bool) -> bool:
    least, step, most = guess.least, guess.step, guess.most
    inside = (least, known + step, most or known + step * _farthest(step, has_tables))
    outside = (least - step, known + step // 2, *([most + step] if most else []))
    return all(map(takes, inside)) and not any(takes(size) for size in outside if size > 0 and size not in guess)


def _farthest(step: int, has_tables: bool) -> int:
    """Returns how many steps from a known size is asked for an end."""
    return max(_FAR, _FARTHEST // step) if has_tables else _FAR


def _last(holds: Callable[[int], bool], bound: int) -> int:
    """Returns the largest count up to the bound for which something holds, which holds at 0 and ends once."""
    if bound == 0 or holds(bound):
        return bound
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
