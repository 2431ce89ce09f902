"""Which dynamic dimensions are the same: found by calling the model on small arrays of unlike sizes.

Keras and TensorFlow know a dynamic dimension only as `None`. Two inputs that must have the same length, and an output
that has the length of an input, are told apart from those that merely may have by trying: sizes are changed together
until the model takes them.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_pe.export.errors import UnknownSizesError

Shape = tuple[int | str | None, ...]
Axis = tuple[int, int]  # the number of the input, the number of its axis

# Sizes that are tried, all different, none of them 1 (which broadcasts). Convolutions without padding need the larger,
# short position tables the smallest.
_SIZES = ((7, 11, 13, 17, 19, 23), (67, 71, 73, 79, 83, 89), (257, 263, 269, 271, 277, 281), (2, 3, 4, 5, 6, 8))
# Sound needs more than a frame of a spectrum. Two such lengths could be those of an image, which memory would not hold.
_SIZES_OF_SOUND = (4099, 4111, 4127, 4129, 4133, 4139)
_MOST_AXES = 6  # of which all subsets are tried


def name_inputs(
    shapes: Sequence[Shape],
    call: Callable[[list[tuple[int, ...]]], Any],
    fits: Callable[[list[tuple[int, ...]]], bool],
) -> list[tuple[int | str, ...]]:
    """Returns the shapes with a name on each dynamic dimension: `batch`, `length`, `length_2`, ...

    Args:
        shapes: One an input; `None` where the dimension is dynamic, a name where the caller has given it one.
        call: Calls the model with arrays of these static shapes, and raises where it does not take them.
        fits: Whether the model takes these static shapes; asked where some may not go together.

    Raises:
        UnknownSizesError: If the model takes no sizes that were tried.
    """
    batch, free = _split(shapes, rank_one_has_batch=True)
    try:
        base = _first_that_works(shapes, batch, free, call)
    except UnknownSizesError:
        if not any(len(shape) == 1 and shape[0] is None for shape in shapes):
            raise
        batch, free = _split(shapes, rank_one_has_batch=False)
        base = _first_that_works(shapes, batch, free, call)
    names = dict.fromkeys(batch, "batch")
    taken = {dim for shape in shapes for dim in shape if isinstance(dim, str)}
    for group in _groups(free, lambda group: fits(static_shapes(shapes, base | _changed(base, group)))):
        name = next(name for name in _length_names() if name not in taken)
        taken.add(name)
        names |= dict.fromkeys(group, name)
    return name_axes(shapes, names)


def name_axes(shapes: Sequence[Shape], names: Mapping[Axis, str]) -> list[tuple[int | str, ...]]:
    """Returns the shapes with the names filled in."""
    return [
        tuple(names[i, axis] if dim is None else dim for axis, dim in enumerate(shape))
        for i, shape in enumerate(shapes)
    ]


def name_outputs(
    known: Sequence[int | str], measure: Callable[[dict[str, int]], list[tuple[int, ...]]]
) -> tuple[list[tuple[int | str, ...]], dict[str, int]]:
    """Returns the shapes of the outputs: a number where it stays, an input's dimension where it follows, else `axis_1`.

    With them come sizes of the inputs' dimensions that the model takes.

    Args:
        known: The names of the inputs' dynamic dimensions (and, ignored, their static sizes).
        measure: Returns the outputs' shapes when the inputs' dimensions have the given sizes.

    Raises:
        UnknownSizesError: If the model takes no sizes that were tried.
    """
    names = list(dict.fromkeys(dim for dim in known if isinstance(dim, str)))
    first, second = _two_that_work(names, measure)
    shapes = []
    for dims in zip(first[1], second[1], strict=True):
        shape: list[int | str] = []
        for axis, (small, large) in enumerate(zip(*dims, strict=True)):
            same = [name for name in names if (first[0][name], second[0][name]) == (small, large)]
            shape.append(small if small == large else next(iter(same), f"axis_{axis}"))
        shapes.append(tuple(shape))
    return shapes, second[0]


def static_shapes(shapes: Sequence[Shape], sizes: Mapping[Any, int]) -> list[tuple[int, ...]]:
    """Returns the shapes with sizes filled in, found by name or by axis."""
    return [
        tuple(dim if isinstance(dim, int) else sizes[dim or (i, axis)] for axis, dim in enumerate(shape))
        for i, shape in enumerate(shapes)
    ]


def _split(shapes: Sequence[Shape], rank_one_has_batch: bool) -> tuple[list[Axis], list[Axis]]:
    dynamic = [(i, axis) for i, shape in enumerate(shapes) for axis, dim in enumerate(shape) if dim is None]
    batch = [at for at in dynamic if at[1] == 0 and (rank_one_has_batch or len(shapes[at[0]]) > 1)]
    return batch, [at for at in dynamic if at not in batch]


def _first_that_works(
    shapes: Sequence[Shape], batch: list[Axis], free: list[Axis], call: Callable[[list[tuple[int, ...]]], Any]
) -> dict[Any, int]:
    given = dict.fromkeys(dim for shape in shapes for dim in shape if isinstance(dim, str))
    cause: Exception | None = None
    for sizes in _sizes(len({*given, "batch"}) - 1 + len(free)):
        base: dict[Any, int] = dict.fromkeys(batch, _batches(sizes)[0]) | dict.fromkeys(free, sizes[0])
        base |= {name: _batches(sizes)[0] if name == "batch" else sizes[k % 6] for k, name in enumerate(given)}
        try:
            call(static_shapes(shapes, base))
        except Exception as error:  # whatever the layers raise: the next sizes may suit them
            cause = cause or error
        else:
            return base
    raise UnknownSizesError(str(cause)) from cause


def _two_that_work(
    names: list[str], measure: Callable[[dict[str, int]], list[tuple[int, ...]]]
) -> list[tuple[dict[str, int], list[tuple[int, ...]]]]:
    cause: Exception | None = None
    for primes in _sizes(len({*names, "batch"}) - 1):
        found = []
        try:
            for batch, shift in zip(_batches(primes), (0, 1), strict=True):
                lengths = itertools.cycle(primes[shift:] + primes[:shift])
                sizes = {name: batch if name == "batch" else next(lengths) for name in names}
                found.append((sizes, measure(sizes)))
        except Exception as error:  # whatever the layers raise: the next sizes may suit them
            cause = cause or error
        else:
            return found
    raise UnknownSizesError(str(cause)) from cause


def _sizes(lengths: int) -> tuple[tuple[int, ...], ...]:
    """Returns the sizes to try where so many dimensions besides the batch are dynamic."""
    return (*_SIZES, _SIZES_OF_SOUND) if lengths == 1 else _SIZES


def _batches(lengths: Sequence[int]) -> tuple[int, int]:
    """Returns two sizes of the batch that are no length."""
    return (10, 11) if 2 in lengths else (2, 3)


def _groups(axes: list[Axis], runs: Callable[[Sequence[Axis]], bool]) -> list[Sequence[Axis]]:
    """Returns the smallest sets of axes that may change together while the others stay."""
    if len(axes) > _MOST_AXES:
        return [[at] for at in axes]
    groups: list[Sequence[Axis]] = []
    while axes:
        first, others = axes[0], axes[1:]
        subsets = (s for count in range(len(others)) for s in itertools.combinations(others, count))
        group = next(((first, *s) for s in subsets if runs((first, *s))), tuple(axes))
        groups.append(group)
        axes = [at for at in axes if at not in group]
    return groups


def _changed(base: Mapping[Any, int], group: Sequence[Axis]) -> dict[Any, int]:
    sizes = next(sizes for sizes in _sizes(1) if base[group[0]] in sizes)
    return dict.fromkeys(group, sizes[-1])


def _length_names() -> Any:
    return itertools.chain(["length"], (f"length_{count}" for count in itertools.count(2)))
