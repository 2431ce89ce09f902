"""Finds which sizes a model takes, what its dimensions are called, and what it returns for them."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from keras_pe.export.errors import UnknownSizesError, first_line
from keras_pe.export.model.sizes.dimension_search import find_dimensions
from keras_pe.export.model.sizes.dimensions import LARGE_SIDE, Dimension, Kind, NamedShapes, SizeRange, spread
from keras_pe.export.model.sizes.oracle import Oracle, shapes_of
from keras_pe.export.model.watch.known_values import Filling, KnownValues
from keras_pe.export.model.watch.nesting import FlatModel, StaticShape, map_leaves

_LARGEST, _MOST_SIZES = 4096, 64  # of the weights: larger ones and more are those of wide networks


class _Start(NamedTuple):
    """The sizes of a call: of batches, of the first other dimension, and the end of its range that such a length is.

    A batch of 1 is then all that the model takes.
    """

    batch: int
    length: int
    bound: str | None = None


# Kernels and layers may refuse sizes that shapes allow. One matrix of zeros is inverted, and three are not.
_START, _START_ALONE = _Start(3, 11), _Start(1, 11)
_STARTS = (_Start(3, 67, "least"), _Start(3, 2, "most"), _Start(3, 257, "least"), _Start(3, 4099, "least"))
# Batch, length and multiple of the least length at which outputs are measured. What ends at a table is as long as the
# table at both large lengths, and at the least length no more.
_ROWS = ((5, 67, 3), (7, 211, 7), (2, 1, 1))


@dataclass(frozen=True)
class FoundSizes(NamedShapes):
    """What is known of a model's sizes, after a call at some of them.

    Attributes:
        sizes: Sizes of its inputs' dimensions at which it was called.
        results: The structure that it returned then, with a dtype at each leaf; a tensor while it is searched.
        filling: What its inputs were filled with.
        outputs: The shapes of its outputs, flat, see `name_outputs`.
    """

    sizes: dict[str, int]
    results: Any
    filling: Filling
    outputs: list[tuple[int | str, ...]] = field(default_factory=list)


_HELD: WeakKeyDictionary[Any, dict[bytes, FoundSizes]] = WeakKeyDictionary()


def find_sizes(model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> FoundSizes:
    """Returns the names and sizes of the dynamic dimensions, and what the model returns.

    A model's answer is held as long as the model lives and the settings of its layers stay as they are, so that an
    export and the checks of its artifact search once. Examples are arrays of the caller, and are never held.

    Args:
        model: The model.
        values: What is known of the values that it takes. If there are examples, it is called on these alone.
        given: The sizes that a dimension takes, by its name.

    Raises:
        UnknownSizesError: If the model takes no sizes that were tried; the cause is its own error.
    """
    if values.examples:
        return _searched(model, values, given)
    held = _HELD.setdefault(model.layers[0], {})

    def key() -> bytes:
        text = repr((model.specs, model.structure, values, [*given.items()], model.settings))
        return hashlib.sha256(text.encode()).digest()

    before = key()
    if before not in held:
        held[before] = _searched(model, values, given)
        held[key()] = held[before]  # Keras notes some settings at the first call
    return held[before]


def _searched(model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> FoundSizes:
    search = _Calls(Oracle(model, values), values, given)
    attempts = search.on_examples() if values.examples else search.on_fillings()
    for found in attempts:
        if found:
            return replace(found, outputs=search.outputs(found), results=map_leaves(found.results, _dtype))
    oracle = search.oracle
    raise UnknownSizesError(first_line(oracle.cause), asks_for_a_value=oracle.asks_for_a_value) from oracle.cause


def _dtype(tensor: Any) -> str:
    import keras

    return str(keras.backend.standardize_dtype(tensor.dtype))


class _Calls:
    """Calls of a model at some sizes, until it takes them."""

    def __init__(self, oracle: Oracle, values: KnownValues, given: Mapping[str, Sequence[int]]) -> None:
        self.oracle, self._values, self._given = oracle, values, given
        self._examples = [[np.shape(each[name]) for name in oracle.model.names] for each in values.examples]

    def on_examples(self) -> Iterator[FoundSizes | None]:
        """Yields the sizes of the first example and what the model returns for it; the ranges hold those of all."""
        for named in self._candidates():
            rows = [named.sizes_in(example) for example in self._examples]
            sizes = [row for row in rows if row is not None]
            if len(sizes) < len(rows):
                continue
            try:
                results = self.oracle.call(self._examples[0], Filling())
            except Exception as error:  # whatever the layers raise
                self.oracle.cause = error
                continue
            free = _with_sizes_of(named, sizes)
            first = {name: size for name, size in sizes[0].items() if name in free.dimensions}
            yield FoundSizes(free.shapes, free.dimensions, first, results, Filling())

    def on_fillings(self) -> Iterator[FoundSizes | None]:
        """Yields what calls of the model have come to: zeros of every size come before other values.

        After one that failed, sizes may be taken by chance, and those that agree need not: dimensions are taken apart
        as far as calls allow, and the model is called at other sizes too.
        """
        zeros, *others = self._values.fillings(self.oracle.specs(self.oracle.model.shapes))
        trials = [(zeros, start) for start in (_START, *_STARTS)]
        trials += [(filling, _START) for filling in others]
        trials += [(filling, _START_ALONE) for filling in (zeros, *others)]
        trials += [(filling, start) for filling in others for start in _STARTS]
        candidates = self._candidates()
        is_first = True
        for filling, start in trials:
            candidates, again = itertools.tee(candidates)
            for named in again:
                called = self._called(named, start, filling)
                yield called if is_first or not called else self._confirmed(called, start, filling)
                is_first = False

    def _candidates(self) -> Iterator[NamedShapes]:
        """Yields what the dimensions may be, the freest first."""
        shapes = self.oracle.model.shapes
        dynamic = [(axis, dim) for shape in shapes for axis, dim in enumerate(shape) if not isinstance(dim, int)]
        any_batch = None
        if not dynamic or (dynamic == [(0, None)] and not self._given):  # most take any batch
            named = [tuple(Kind.BATCH.value if dim is None else dim for dim in shape) for shape in shapes]
            batch = {name: Dimension(Kind.BATCH, name) for name in (Kind.BATCH.value,) if dynamic}
            yield (any_batch := NamedShapes(named, batch))
        if not dynamic:
            return
        sizes = {int(size) for variable in self.oracle.model.variables for size in variable.shape}
        weight_sizes = sorted(size for size in sizes if 1 < size <= _LARGEST)[:_MOST_SIZES]
        found = find_dimensions(
            shapes,
            self.oracle.takes,
            self._given,
            table_sizes=self.oracle.table_sizes,
            examples=self._examples,
            weight_sizes=weight_sizes,
        )
        with contextlib.suppress(UnknownSizesError):
            yield from (named for named in found if named != any_batch)

    def _called(self, named: NamedShapes, start: _Start, filling: Filling) -> FoundSizes | None:
        """Returns sizes at which the model does not raise, and what it returns; the ranges end there if need be."""
        dimensions = named.dimensions
        lengths = {name for name, own in dimensions.items() if own.kind is not Kind.BATCH and name not in self._given}
        if start.bound and (not lengths or (len(lengths) > 1 and start.length > LARGE_SIDE)):
            return None
        sizes = spread(dimensions, start.batch, start.length)
        try:
            results = self.oracle.call(named.static(sizes), filling)
        except Exception as error:  # whatever the kernels raise
            if filling == Filling():
                self.oracle.cause = error
            return None
        bounded = {}
        for name, own in dimensions.items():
            if start.bound and name in lengths:
                bounded[name] = replace(own, sizes=own.sizes.bounded(start.bound, sizes[name]))
            elif start.batch == 1 and own.kind is Kind.BATCH and name not in self._given:
                bounded[name] = replace(own, sizes=SizeRange(1, 0))
        return FoundSizes(named.shapes, dimensions | bounded, sizes, results, filling)

    def _confirmed(self, called: FoundSizes, start: _Start, filling: Filling) -> FoundSizes | None:
        """Returns what a call has come to, if the model takes other sizes next to those as well."""
        length = 1 if start.bound == "most" else start.length + 1
        if not self._called(called, _Start(1 if start.batch == 1 else 5, length, start.bound), filling):
            return None
        runs = called.static(called.sizes), lambda asked: self.oracle.runs(asked, filling)
        try:
            apart = next(
                find_dimensions(
                    self.oracle.model.shapes,
                    self.oracle.takes,
                    self._given,
                    table_sizes=self.oracle.table_sizes,
                    runs=runs,
                )
            )
        except UnknownSizesError:
            return called
        return self._called(apart, start, filling) or called

    def outputs(self, found: FoundSizes) -> list[tuple[int | str, ...]]:
        """Returns the shapes of the outputs, measured at several sizes."""
        rows = [(found.sizes, shapes_of(found.results))]
        # Shapes that are inferred cost less than a call.
        wanted = _ROWS if self.oracle.infers else _ROWS[-1:] if found.dimensions else ()
        measured = [spread(found.dimensions, *row) for row in wanted]
        for more in [*measured, *_varied(found, measured)]:
            with contextlib.suppress(Exception):  # sizes that are valid one by one need not be valid together
                rows.append((more, self.oracle.measured(found.static(more), found.filling)))
        return name_outputs(rows)


def _varied(found: FoundSizes, measured: Sequence[Mapping[str, int]]) -> Iterator[dict[str, int]]:
    """Yields the first sizes with another one of each dimension that is the same in all rows, or as far from another.

    A size of an output that follows from such a dimension would look fixed, or would look like the other dimension.
    """
    rows = [found.sizes, *measured]
    columns = {name: [row[name] for row in rows] for name in found.dimensions}
    for name, own in found.dimensions.items():
        distances = (
            {one - another for one, another in zip(columns[name], column, strict=True)}
            for each, column in columns.items()
            if each != name
        )
        is_alike = any(len(distance) == 1 for distance in distances)
        other = own.sizes.other(found.sizes[name])
        if other is not None and (is_alike or len(set(columns[name])) == 1):
            yield {**found.sizes, name: other}


def _with_sizes_of(named: NamedShapes, examples: Sequence[Mapping[str, int]]) -> NamedShapes:
    """Returns the shapes with ranges that hold the sizes of all examples, and numbers where that is the only one."""
    known = {name: sorted({row[name] for row in examples}) for name in named.dimensions}
    dimensions = {
        name: own
        if all(size in own.sizes for size in known[name])
        else replace(own, sizes=SizeRange(known[name][0], 0, given=tuple(known[name])))
        for name, own in named.dimensions.items()
    }
    fixed = {name: own.sizes.least for name, own in dimensions.items() if not (own.sizes.step or own.sizes.given)}
    return NamedShapes(named.with_sizes(fixed), {name: own for name, own in dimensions.items() if name not in fixed})


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
