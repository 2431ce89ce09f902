"""Finds the valid sizes of a model, the names of its dimensions, and the shapes of its outputs."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.accepted_shapes import Oracle, shapes_of
from keras_pe.export.model.sizes.dimension_search import find_dimensions
from keras_pe.export.model.sizes.dimensions import LARGE_SIDE, Dimension, Kind, NamedShapes, SizeRange, spread
from keras_pe.export.model.watch.known_values import Filling, KnownValues
from keras_pe.export.model.watch.nested_arguments import FlatModel, StaticShape, map_leaves

_LARGEST, _MOST_SIZES = 4096, 64  # limits of the weights' sizes to try: wide networks have larger sizes, and more


class _Start(NamedTuple):
    """The sizes of a call: the batch, the first other dimension, and the end of the range, if any, at this length.

    A batch of 1 is the only valid batch of the model if the call succeeds.
    """

    batch: int
    length: int
    bound: str | None = None


# Kernels and layers may refuse sizes with valid shapes: one zero matrix is inverted, but three are not.
_START, _START_ALONE = _Start(3, 11), _Start(1, 11)
_STARTS = (_Start(3, 67, "least"), _Start(3, 2, "most"), _Start(3, 257, "least"), _Start(3, 4099, "least"))
# Each row has a batch, a length and a multiple of the least length, at which outputs are measured. An output that ends
# with a table has the table's length at both large lengths, but not at the least length.
_ROWS = ((5, 67, 3), (7, 211, 7), (2, 1, 1))


@dataclass(frozen=True)
class FoundSizes(NamedShapes):
    """The valid sizes of a model, and the results of a call.

    Attributes:
        sizes: The sizes of the inputs' dimensions in the call.
        results: The structure of the results, with dtypes as leaves. During the search, the leaves are tensors.
        filling: The filling of the inputs in the call.
        outputs: The shapes of the outputs, flat, see `name_outputs`.
    """

    sizes: dict[str, int]
    results: Any
    filling: Filling
    outputs: list[tuple[int | str, ...]] = field(default_factory=list)


_HELD: WeakKeyDictionary[Any, dict[bytes, FoundSizes]] = WeakKeyDictionary()


def find_sizes(model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> FoundSizes:
    """Returns the names and sizes of the dynamic dimensions, and the outputs.

    The result is cached while the model exists and the settings of its layers do not change. Thus an export and the
    checks of its artifact search once. Results for examples are not cached, since examples are arrays of the caller.

    Args:
        model: The model.
        values: The known constraints on its values. If there are examples, the model is called only on these.
        given: The caller's sizes of each dimension, by name.

    Raises:
        UnknownSizesError: If the model refuses all tried sizes. The cause is the model's own error.
    """
    if values.examples:
        return _search_sizes(model, values, given)
    by_settings = _HELD.setdefault(model.layers[0], {})

    def key() -> bytes:
        text = repr((model.specs(model.shapes), model.structure, values, [*given.items()], model.settings))
        return hashlib.sha256(text.encode()).digest()

    before = key()
    if before not in by_settings:
        by_settings[before] = _search_sizes(model, values, given)
        by_settings[key()] = by_settings[before]  # Keras sets some settings at the first call
    return by_settings[before]


def _search_sizes(model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> FoundSizes:
    search = _Calls(Oracle(model, values), values, given)
    attempts = search.on_examples() if values.examples else search.on_fillings()
    for found in attempts:
        if found:
            return replace(found, outputs=search.outputs(found), results=map_leaves(found.results, _dtype))
    raise search.oracle.refusal() from search.oracle.cause


def _dtype(tensor: Any) -> str:
    import keras

    return str(keras.backend.standardize_dtype(tensor.dtype))


class _Calls:
    """Calls of a model at several sizes, until a call succeeds."""

    def __init__(self, oracle: Oracle, values: KnownValues, given: Mapping[str, Sequence[int]]) -> None:
        self.oracle, self._values, self._given = oracle, values, given
        self._examples = [[np.shape(each[name]) for name in oracle.model.names] for each in values.examples]

    def on_examples(self) -> Iterator[FoundSizes | None]:
        """Yields the sizes and the results for the first example. The ranges contain the sizes of all examples."""
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
        """Yields the result of each call, or None if the call fails. Zeros of every size come before other values.

        After a failed call, the model may accept the next sizes by chance, and dimensions that agree need not do so.
        Thus the search separates dimensions as far as calls succeed, and calls the model at other sizes too.
        """
        zeros, *others = self._values.fillings(self.oracle.model.specs(self.oracle.model.shapes))
        trials = [(zeros, start) for start in (_START, *_STARTS)]
        trials += [(filling, _START) for filling in others]
        trials += [(filling, _START_ALONE) for filling in (zeros, *others)]
        trials += [(filling, start) for filling in others for start in _STARTS]
        candidates = self._candidates()
        is_first = True
        for filling, start in trials:
            candidates, again = itertools.tee(candidates)
            for named in again:
                called = self._call_model(named, start, filling)
                yield called if is_first or not called else self._confirm_sizes(called, start, filling)
                is_first = False

    def _candidates(self) -> Iterator[NamedShapes]:
        """Yields possible dimensions. The dimensions with the fewest constraints come first."""
        shapes = self.oracle.model.shapes
        dynamic = [(axis, dim) for shape in shapes for axis, dim in enumerate(shape) if not isinstance(dim, int)]
        any_batch = None
        if not dynamic or (dynamic == [(0, None)] and not self._given):  # most models accept any batch
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

    def _call_model(self, named: NamedShapes, start: _Start, filling: Filling) -> FoundSizes | None:
        """Returns the sizes and results of a call, or None if it fails. The ranges end there if `start` has a bound."""
        dimensions = named.dimensions
        lengths = {name for name, own in dimensions.items() if own.kind is not Kind.BATCH and name not in self._given}
        has_area = len(lengths) > 1 or any(sum(dim in lengths for dim in shape) > 1 for shape in named.shapes)
        if start.bound and (not lengths or (has_area and start.length > LARGE_SIDE)):
            return None
        sizes = spread(dimensions, start.batch, start.length)
        try:
            results = self.oracle.call(named.sized_shapes(sizes), filling)
        except Exception as error:  # whatever the kernels raise
            if filling == Filling():
                self.oracle.cause = error
            return None
        bounded = {}
        for name, own in dimensions.items():
            if start.bound and name in lengths:
                bounded[name] = replace(own, sizes=own.sizes.with_end(start.bound, sizes[name]))
            elif start.batch == 1 and own.kind is Kind.BATCH and name not in self._given:
                bounded[name] = replace(own, sizes=SizeRange(1, 0))
        return FoundSizes(named.shapes, dimensions | bounded, sizes, results, filling)

    def _confirm_sizes(self, called: FoundSizes, start: _Start, filling: Filling) -> FoundSizes | None:
        """Returns the result of a call if the model accepts neighboring sizes too; None otherwise."""
        length = 1 if start.bound == "most" else start.length + 1
        if not self._call_model(called, _Start(1 if start.batch == 1 else 5, length, start.bound), filling):
            return None
        runs = called.sized_shapes(called.sizes), lambda asked: self.oracle.runs(asked, filling)
        try:
            other_sizes = next(
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
        return self._call_model(other_sizes, start, filling) or called

    def outputs(self, found: FoundSizes) -> list[tuple[int | str, ...]]:
        """Returns the shapes of the outputs, measured at several sizes."""
        rows = [(found.sizes, shapes_of(found.results))]
        # Inferred shapes cost less than a call.
        wanted = _ROWS if self.oracle.infers else _ROWS[-1:] if found.dimensions else ()
        measured = [spread(found.dimensions, *row) for row in wanted]
        for more in [*measured, *_vary_sizes(found, measured)]:
            with contextlib.suppress(Exception):  # sizes that are valid one by one need not be valid together
                rows.append((more, self.oracle.output_shapes(found.sized_shapes(more), found.filling)))
        return name_outputs(rows)


def _vary_sizes(found: FoundSizes, measured: Sequence[Mapping[str, int]]) -> Iterator[dict[str, int]]:
    """Yields the first sizes with one other size, for each dimension at a constant size, or distance from another one.

    Without these sizes, an output's size that follows from the dimension looks fixed, or like the other dimension.
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
    """Returns the shapes with ranges that contain the sizes of all examples, and with a number for a fixed size."""
    known = {name: sorted({row[name] for row in examples}) for name in named.dimensions}
    dimensions = {
        name: own
        if all(size in own.sizes for size in known[name])
        else replace(own, sizes=SizeRange(known[name][0], 0, given=tuple(known[name])))
        for name, own in named.dimensions.items()
    }
    fixed = {name: own.sizes.least for name, own in dimensions.items() if not (own.sizes.step or own.sizes.given)}
    return NamedShapes(named.sized_shapes(fixed), {name: own for name, own in dimensions.items() if name not in fixed})


def name_outputs(rows: Sequence[tuple[Mapping[str, int], Sequence[StaticShape]]]) -> list[tuple[int | str, ...]]:
    """Returns the shapes of the outputs, with fixed sizes, names of the inputs' dimensions, or names such as `axis_1`.

    Args:
        rows: The sizes of the inputs' dimensions and the outputs' shapes of each call.
    """
    shapes = []
    for output in zip(*(shapes for _, shapes in rows), strict=True):
        shape: list[int | str] = []
        for axis, found in enumerate(zip(*output, strict=True)):
            same = (name for name in rows[0][0] if [sizes[name] for sizes, _ in rows] == list(found))
            shape.append(found[0] if len(set(found)) == 1 else next(same, f"axis_{axis}"))
        shapes.append(tuple(shape))
    return shapes
