"""Finds out which sizes a model takes, how its dimensions are called, and what it returns for them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.errors import UnknownSizesError, first_line
from keras_pe.export.model.sizes.dimension_search import NamedShapes, find_dimensions
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange, spread
from keras_pe.export.model.sizes.oracle import SizeOracle, shapes_of
from keras_pe.export.model.watch.known_values import Filling, KnownValues
from keras_pe.export.model.watch.nesting import FlatModel, Shape, StaticShape


@dataclass(frozen=True)
class _Start:
    """Sizes at which a model is called, until it does not raise: kernels and layers may refuse what shapes allow.

    Attributes:
        batch: Of batches. One alone is then all that the model takes.
        length: Of the first other dimension.
        bound: What such a length then bounds.
        is_of_sound: Whether it is for one length only: two could be those of an image, which memory would not hold.
    """

    batch: int
    length: int
    bound: str | None = None
    is_of_sound: bool = False


_START = _Start(3, 11)
_STARTS = (
    _Start(3, 67, "least"),
    _Start(3, 2, "most"),
    _Start(3, 257, "least"),
    _Start(3, 4099, "least", is_of_sound=True),
)
_START_ALONE = _Start(1, 11)  # one matrix of zeros is inverted, and three are not: other values come first
# Whether batches, and other dimensions, are independent of each other.
_APART = ((True, True), (False, True), (False, False))
_Called = tuple["NamedShapes", dict[str, int], Any]
# Batch, length and multiple of the least length at which outputs are measured. What ends at a table is as long as the
# table at both large lengths, and at the least length no more.
_ROWS = ((5, 67, 3), (7, 211, 7), (2, 1, 1))
_ROWS_OF_A_BATCH = ((2, 1, 1),)


@dataclass(frozen=True)
class FoundSizes:
    """What is known of a model's sizes, after a call at some of them.

    Attributes:
        shapes: Of its inputs, a name on each dynamic dimension.
        dimensions: The dynamic dimensions of its inputs, by name.
        sizes: Sizes of them at which it was called.
        results: What it returned then.
        outputs: The shapes of its outputs, flat, see `name_outputs`.
        filling: What its inputs were filled with.
    """

    shapes: list[tuple[int | str, ...]]
    dimensions: dict[str, Dimension]
    sizes: dict[str, int]
    results: Any
    outputs: list[tuple[int | str, ...]]
    filling: Filling


def find_sizes(model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> FoundSizes:
    """Returns the names and sizes of the dynamic dimensions, and what the model returns.

    Args:
        model: The model.
        values: What is known of the values that it takes. Where there are examples, it is called on these alone.
        given: The sizes that a dimension takes, by its name.

    Raises:
        UnknownSizesError: If the model takes no sizes that were tried; the cause is its own error.
    """
    oracle = SizeOracle(model, values)
    examples = [[np.shape(each[name]) for name in model.names] for each in values.examples]
    candidates = _candidates(model.shapes, oracle, given, examples)
    attempts: Iterator[_Called | None]
    if examples:
        attempts = (_called_on(oracle, named, examples) for named in candidates)
    else:
        fillings = values.fillings(dict(zip(model.names, zip(model.shapes, model.dtypes, strict=True), strict=True)))
        attempts = _attempts(oracle, model.shapes, candidates, given, fillings)
    for attempt in attempts:
        if attempt:
            named, sizes, results = attempt
            outputs = _outputs(oracle, named, sizes, results)
            return FoundSizes(named.shapes, named.dimensions, sizes, results, outputs, oracle.filling)
    raise UnknownSizesError(first_line(oracle.cause)) from oracle.cause


def _attempts(
    oracle: SizeOracle,
    shapes: Sequence[Shape],
    candidates: Iterator[NamedShapes],
    given: Mapping[str, Sequence[int]],
    fillings: Iterable[Filling],
) -> Iterator[_Called | None]:
    """Yields what calls of the model have come to: zeros of every size come before other values.

    After one that failed, sizes may be taken by chance, and those that agree need not: dimensions are taken apart as
    far as calls allow, and the model is called at other sizes too.
    """
    zeros, *others = fillings
    trials = [(zeros, start) for start in (_START, *_STARTS)]
    trials += [(filling, _START) for filling in others]
    trials += [(filling, _START_ALONE) for filling in (zeros, *others)]
    trials += [(filling, start) for filling in others for start in _STARTS]
    is_first = True
    for filling, start in trials:
        candidates, again = itertools.tee(candidates)
        for named in again:
            called = _called(oracle, named, given, start, filling)
            yield called if is_first or not called else _confirmed(oracle, shapes, called, given, start, filling)
            is_first = False


def _confirmed(
    oracle: SizeOracle,
    shapes: Sequence[Shape],
    called: _Called,
    given: Mapping[str, Sequence[int]],
    start: _Start,
    filling: Filling,
) -> _Called | None:
    """Returns sizes at which the model was called and what it returned, if it takes others next to them as well."""
    named, sizes, _ = called
    known = named.static(sizes)
    beside = replace(start, batch=1 if start.batch == 1 else 5, length=1 if start.bound == "most" else start.length + 1)
    if not _called(oracle, named, given, beside, filling):
        return None
    try:
        apart = find_dimensions(
            shapes,
            oracle.takes,
            given,
            table_sizes=oracle.table_sizes,
            runs=(known, lambda asked: oracle.runs(asked, filling)),
        )
    except UnknownSizesError:
        return called
    return _called(oracle, apart, given, start, filling) or called


def _candidates(
    shapes: Sequence[Shape],
    oracle: SizeOracle,
    given: Mapping[str, Sequence[int]],
    examples: Sequence[Sequence[StaticShape]],
) -> Iterator[NamedShapes]:
    """Yields what the dimensions may be, the freest first: inferred shapes of a loop do not tell which must agree."""
    dynamic = [(axis, dim) for shape in shapes for axis, dim in enumerate(shape) if not isinstance(dim, int)]
    if not dynamic or (dynamic == [(0, None)] and not given):  # any batch will do
        named = [tuple(Kind.BATCH.value if dim is None else dim for dim in shape) for shape in shapes]
        batch = {name: Dimension(Kind.BATCH, name) for name in (Kind.BATCH.value,) if dynamic}
        yield NamedShapes(named, batch)
        return
    last = None
    for batches_apart, others_apart in _APART:
        try:
            found = find_dimensions(
                shapes,
                oracle.takes,
                given,
                batches_apart=batches_apart,
                others_apart=others_apart,
                table_sizes=oracle.table_sizes,
                examples=examples,
                weight_sizes=oracle.weight_sizes,
            )
        except UnknownSizesError:
            return
        if found != last:
            yield found
        last = found


def _called_on(oracle: SizeOracle, named: NamedShapes, examples: Sequence[Sequence[StaticShape]]) -> _Called | None:
    """Returns the sizes of the first example and what the model returns for it; the ranges hold those of all."""
    rows = [named.sizes(example) for example in examples]
    if not all(row is not None for row in rows):
        return None
    try:
        results = oracle.call(examples[0], Filling())
    except Exception as error:  # whatever the layers raise
        oracle.cause = error
        return None
    known = {name: sorted({row[name] for row in rows if row}) for name in named.dimensions}
    dimensions = {
        name: own if all(size in own.sizes for size in known[name]) else replace(own, sizes=_sizes_of(known[name]))
        for name, own in named.dimensions.items()
    }
    free = _without_fixed(NamedShapes(named.shapes, dimensions))
    return free, {name: size for name, size in (rows[0] or {}).items() if name in free.dimensions}, results


def _without_fixed(named: NamedShapes) -> NamedShapes:
    """Returns the shapes with numbers for the dimensions that take no other size than the examples have."""
    fixed = {name: own.sizes.least for name, own in named.dimensions.items() if not (own.sizes.step or own.sizes.given)}
    shapes = [tuple(fixed.get(dim, dim) if isinstance(dim, str) else dim for dim in shape) for shape in named.shapes]
    return NamedShapes(shapes, {name: own for name, own in named.dimensions.items() if name not in fixed})


def _sizes_of(known: Sequence[int]) -> SizeRange:
    return SizeRange(known[0], 0, given=tuple(known))


def _called(
    oracle: SizeOracle, named: NamedShapes, given: Mapping[str, Sequence[int]], start: _Start, filling: Filling
) -> _Called | None:
    """Returns sizes at which the model does not raise, and what it returns; the ranges end there if need be."""
    dimensions = named.dimensions
    lengths = {name for name, own in dimensions.items() if own.kind is not Kind.BATCH and name not in given}
    is_of_one = sum(dim in lengths for shape in named.shapes for dim in shape) == 1
    if (start.bound and not lengths) or (start.is_of_sound and not is_of_one):
        return None
    sizes = spread(dimensions, start.batch, start.length)
    try:
        results = oracle.call(named.static(sizes), filling)
    except Exception as error:  # whatever the kernels raise
        if filling == Filling():
            oracle.cause = error
        return None
    bounded = {}
    for name, own in dimensions.items():
        if start.bound and name in lengths:
            bounded[name] = replace(own, sizes=own.sizes.bounded(start.bound, sizes[name]))
        elif start.batch == 1 and own.kind is Kind.BATCH and name not in given:
            bounded[name] = replace(own, sizes=SizeRange(1, 0))
    return replace(named, dimensions=dimensions | bounded), sizes, results


def _outputs(
    oracle: SizeOracle, named: NamedShapes, sizes: dict[str, int], results: Any
) -> list[tuple[int | str, ...]]:
    rows = [(sizes, shapes_of(results))]
    for batch, start, factor in _ROWS if oracle.infers else _ROWS_OF_A_BATCH if named.dimensions else ():
        more = spread(named.dimensions, batch, start, factor)
        try:
            rows.append((more, oracle.measure(named.static(more))))
        except Exception as error:  # ranges that hold one by one need not hold together
            oracle.cause = error
    return name_outputs(rows)


def name_outputs(rows: Sequence[tuple[Mapping[str, int], Sequence[StaticShape]]]) -> list[tuple[int | str, ...]]:
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
