"""Finds out which sizes a model takes, how its dimensions are called, and what it returns for them."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keras_pe.export.errors import UnknownSizesError, first_line
from keras_pe.export.model.sizes.dimension_search import find_dimensions
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, NamedShapes, SizeRange, spread
from keras_pe.export.model.sizes.shape_inference import GraphShapes, PartialShape, SymbolicShapes
from keras_pe.export.model.watch.known_values import Filling, KnownValues
from keras_pe.export.model.watch.nesting import FlatModel, StaticShape, leaves
from keras_pe.export.model.watch.recording import state_left_alone

_LARGEST, _MOST_SIZES = 4096, 64  # of the weights: more are those of wide networks, and not asked for


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
_POWERS = (4, 64, 4096)  # sizes that most models take some of
_START_ALONE = _Start(1, 11)  # one matrix of zeros is inverted, and three are not: other values come first
# Batch, length and multiple of the least length at which outputs are measured. What ends at a table is as long as the
# table at both large lengths, and at the least length no more.
_ROWS = ((5, 67, 3), (7, 211, 7), (2, 1, 1))


@dataclass(frozen=True)
class FoundSizes(NamedShapes):
    """What is known of a model's sizes, after a call at some of them.

    Attributes:
        sizes: Sizes of its inputs' dimensions at which it was called.
        results: What it returned then.
        filling: What its inputs were filled with.
        outputs: The shapes of its outputs, flat, see `name_outputs`.
    """

    sizes: dict[str, int]
    results: Any
    filling: Filling
    outputs: list[tuple[int | str, ...]] = field(default_factory=list)


def find_sizes(model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> FoundSizes:
    """Returns the names and sizes of the dynamic dimensions, and what the model returns.

    Args:
        model: The model.
        values: What is known of the values that it takes. Where there are examples, it is called on these alone.
        given: The sizes that a dimension takes, by its name.

    Raises:
        UnknownSizesError: If the model takes no sizes that were tried; the cause is its own error.
    """
    oracle = _Oracle(model, values, given)
    attempts = oracle.called_on_examples() if values.examples else oracle.called_on_fillings()
    for found in attempts:
        if found:
            return replace(found, outputs=oracle.outputs(found))
    refusal = UnknownSizesError(". ".join(filter(None, [first_line(oracle.cause), oracle.remark])))
    refusal.asks_for_a_value = oracle.asks_for_a_value
    raise refusal from oracle.cause


class _Oracle:
    """A model that is asked which sizes it takes, its state left alone.

    Attributes:
        cause: An error of its own, where it did not take something.
        remark: Why not all sizes were asked for, if they were not.
        asks_for_a_value: Whether it takes zeros of a size whose symbols it refuses.
    """

    def __init__(self, model: FlatModel, values: KnownValues, given: Mapping[str, Sequence[int]]) -> None:
        self._model, self._values, self._given = model, values, given
        self._examples = [[np.shape(each[name]) for name in model.names] for each in values.examples]
        self._inference: GraphShapes | SymbolicShapes | None = None
        self._taken: dict[tuple[StaticShape, ...], bool] = {}
        self.cause: Exception | None = None
        self.remark = ""
        self.asks_for_a_value = False

    def takes(self, shapes: Sequence[StaticShape]) -> bool:
        """Returns whether the layers take these shapes, as far as shapes tell.

        Raises:
            UnknownSizesError: If they ask for a number in a tensor, which no size gives.
        """
        asked = tuple(shapes)
        if asked not in self._taken:
            try:
                self._infer(shapes)
                self._taken[asked] = True
            except Exception as error:  # whatever the layers raise
                self.cause = self.cause or error
                if False not in self._taken.values():  # the first that is refused
                    self.asks_for_a_value = self._takes_arrays_alone()
                if self.asks_for_a_value:
                    raise UnknownSizesError from error
                self._taken[asked] = False
        return self._taken[asked]

    def _takes_arrays_alone(self) -> bool:
        """Whether the model takes zeros of sizes whose symbols it refuses, as it does where no graph can be traced."""
        if not isinstance(self._inference, SymbolicShapes):
            return False
        tried = [
            [tuple(dim if isinstance(dim, int) else size for dim in shape) for shape in self._model.shapes]
            for size in _POWERS
        ]
        for shapes in tried:
            with contextlib.suppress(Exception):  # whatever the layers raise
                self._infer(shapes)
                return False
        return any(self._runs(shapes, Filling()) for shapes in tried[:2])

    def _infer(self, shapes: Sequence[StaticShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs without running the model."""
        if self._inference is None:
            self._inference = self._start_inference()
        return self._inference(shapes)

    def _start_inference(self) -> GraphShapes | SymbolicShapes:
        import keras

        if keras.backend.backend() == "tensorflow":
            try:
                return GraphShapes(self._model)
            except Exception as error:  # a layer may raise anything where a size is not known
                self.cause = error
        return SymbolicShapes(self._model)

    def _table_sizes(self) -> tuple[int, ...]:
        """Returns the sizes of the tables that the model reads, where these may end, as far as they are known."""
        return self._inference.table_sizes if self._inference is not None else ()

    def _call(self, shapes: Sequence[StaticShape], filling: Filling) -> Any:
        """Returns what the model returns for plain values of these shapes.

        Raises:
            Exception: Whatever the kernels raise.
        """
        inputs = replace(self._values, filling=filling).plain(self._specs(shapes))
        with state_left_alone():
            return self._model.call(list(inputs.values()))

    def _runs(self, shapes: Sequence[StaticShape], filling: Filling) -> bool:
        try:
            self._call(shapes, filling)
        except Exception:  # whatever the kernels raise
            return False
        return True

    def _specs(self, shapes: Sequence[Sequence[Any]]) -> dict[str, tuple[Any, str]]:
        return dict(zip(self._model.names, zip(shapes, self._model.dtypes, strict=True), strict=True))

    def called_on_examples(self) -> Iterator[FoundSizes | None]:
        """Yields the sizes of the first example and what the model returns for it; the ranges hold those of all."""
        for named in self._candidates():
            rows = [named.sizes_in(example) for example in self._examples]
            sizes = [row for row in rows if row is not None]
            if len(sizes) < len(rows):
                continue
            try:
                results = self._call(self._examples[0], Filling())
            except Exception as error:  # whatever the layers raise
                self.cause = error
                continue
            free = _with_sizes_of(named, sizes)
            first = {name: size for name, size in sizes[0].items() if name in free.dimensions}
            yield FoundSizes(free.shapes, free.dimensions, first, results, Filling())

    def called_on_fillings(self) -> Iterator[FoundSizes | None]:
        """Yields what calls of the model have come to: zeros of every size come before other values.

        After one that failed, sizes may be taken by chance, and those that agree need not: dimensions are taken apart
        as far as calls allow, and the model is called at other sizes too.
        """
        zeros, *others = self._values.fillings(self._specs(self._model.shapes))
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
        shapes = self._model.shapes
        dynamic = [(axis, dim) for shape in shapes for axis, dim in enumerate(shape) if not isinstance(dim, int)]
        any_batch = None
        if not dynamic or (dynamic == [(0, None)] and not self._given):  # most take any batch
            named = [tuple(Kind.BATCH.value if dim is None else dim for dim in shape) for shape in shapes]
            batch = {name: Dimension(Kind.BATCH, name) for name in (Kind.BATCH.value,) if dynamic}
            yield (any_batch := NamedShapes(named, batch))
        if not dynamic:
            return
        sizes = {int(size) for variable in self._model.variables for size in variable.shape}
        weight_sizes = sorted(size for size in sizes if 1 < size <= _LARGEST)[:_MOST_SIZES]
        found = find_dimensions(
            shapes,
            self.takes,
            self._given,
            table_sizes=self._table_sizes,
            examples=self._examples,
            weight_sizes=weight_sizes,
        )
        try:
            yield from (named for named in found if named != any_batch)
        except UnknownSizesError as error:
            self.remark = str(error)

    def _called(self, named: NamedShapes, start: _Start, filling: Filling) -> FoundSizes | None:
        """Returns sizes at which the model does not raise, and what it returns; the ranges end there if need be."""
        dimensions = named.dimensions
        lengths = {name for name, own in dimensions.items() if own.kind is not Kind.BATCH and name not in self._given}
        is_of_one = sum(dim in lengths for shape in named.shapes for dim in shape) == 1
        if (start.bound and not lengths) or (start.is_of_sound and not is_of_one):
            return None
        sizes = spread(dimensions, start.batch, start.length)
        try:
            results = self._call(named.static(sizes), filling)
        except Exception as error:  # whatever the kernels raise
            if filling == Filling():
                self.cause = error
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
        if not self._called(called, replace(start, batch=1 if start.batch == 1 else 5, length=length), filling):
            return None
        runs = called.static(called.sizes), lambda asked: self._runs(asked, filling)
        try:
            apart = next(
                find_dimensions(self._model.shapes, self.takes, self._given, table_sizes=self._table_sizes, runs=runs)
            )
        except UnknownSizesError:
            return called
        return self._called(apart, start, filling) or called

    def outputs(self, found: FoundSizes) -> list[tuple[int | str, ...]]:
        """Returns the shapes of the outputs, measured at several sizes."""
        rows = [(found.sizes, _shapes_of(found.results))]
        # Shapes that are inferred cost less than a call.
        wanted = _ROWS if self._inference else _ROWS[-1:] if found.dimensions else ()
        measured = [spread(found.dimensions, *row) for row in wanted]
        for more in [*measured, *_varied(found, measured)]:
            try:
                rows.append((more, self._measure(found.static(more), found.filling)))
            except Exception as error:  # ranges that hold one by one need not hold together
                self.cause = error
        return name_outputs(rows)

    def _measure(self, shapes: Sequence[StaticShape], filling: Filling) -> list[StaticShape]:
        """Returns the shapes of the outputs: what cannot be inferred comes from a call.

        Values differ then, so that what counts some of them is no dimension. Neither is what counts the words of a
        text, which are more than any dimension has entries.
        """
        inferred = self._infer(shapes) if self._inference else [None]
        if all(shape is not None and None not in shape for shape in inferred):
            return inferred  # type: ignore[return-value]  # no size is None
        words = 1 + 2 * max((size for shape in shapes for size in shape), default=0)
        run, specs = (self._inference or SymbolicShapes(self._model)).run, self._specs(shapes)
        values = replace(self._values, filling=filling)
        try:
            return _shapes_of(run(list(values.varied(specs, words).values())))
        except Exception:  # whatever the layers raise where they take none but certain values
            return _shapes_of(run(list(values.plain(specs, words).values())))


def _shapes_of(results: Any) -> list[StaticShape]:
    """Returns the shapes of what a model has returned.

    Raises:
        ValueError: If that stays symbolic.
    """
    if any(None in result.shape for _, result in leaves(results)):
        raise ValueError(
            "`model` must return values where it takes values. Received: a model with an output that stays symbolic. "
            "A function in it, such as one of `keras.ops.cond`, uses tensors of the model from outside of itself: put "
            "it into the `call` of a layer."
        )
    return [tuple(int(dim) for dim in result.shape) for _, result in leaves(results)]


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
