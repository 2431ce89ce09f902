"""Finds out which sizes a model takes, how its dimensions are called, and what it returns for them."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.messages import first_line
from keras_pe.export.model.sizes.dimensions import KINDS, Dimensions, Shape, find_dimensions, name_outputs
from keras_pe.export.model.sizes.probing import Probe, shapes_of
from keras_pe.export.model.sizes.sizes import SizeRange, spread
from keras_pe.export.model.watch.calling import FlatModel
from keras_pe.export.model.watch.vocabulary import Vocabulary

# Lengths at which a model is called, in this order, until it does not raise: kernels and layers may refuse what their
# shapes allow. The second of each pair is what such a length then bounds.
_STARTS = ((11, None), (67, "least"), (257, "least"), (2, "most"))
_START_OF_SOUND = (4099, "least")  # of one length only: two could be those of an image, which memory would not hold
_APART = (KINDS, ("length",), ())
_ROWS = ((5, 67, 3), (7, 211, 7))  # batch, length and multiple of the least length at which outputs are measured

_ROWS_OF_A_BATCH = ((2, 1, 1),)


@dataclass(frozen=True)
class Answer:
    """What a model said.

    Attributes:
        dimensions: The dynamic dimensions of its inputs.
        sizes: Sizes of them at which it was called.
        results: What it returned then.
        outputs: The shapes of its outputs, flat, see `name_outputs`.
    """

    dimensions: Dimensions
    sizes: dict[str, int]
    results: Any
    outputs: list[tuple[int | str, ...]]


def ask(model: FlatModel, vocabularies: Sequence[Vocabulary | None], given: Mapping[str, Sequence[int]]) -> Answer:
    """Returns the names and sizes of the dynamic dimensions, and what the model returns.

    Args:
        model: The model.
        vocabularies: What each of its inputs is looked up in.
        given: The sizes that a dimension takes, by its name.

    Raises:
        UnknownSizesError: If the model takes no sizes that were tried; the cause is its own error.
    """
    probe = Probe(model, vocabularies)
    candidates = _candidates(model.shapes, probe, given)
    for start, bound in (*_STARTS, _START_OF_SOUND):
        candidates, again = itertools.tee(candidates)
        for dimensions in again:
            called = _called(probe, dimensions, given, start, bound)
            if called:
                dimensions, sizes, results = called
                return Answer(dimensions, sizes, results, _outputs(probe, dimensions, sizes, results))
    raise UnknownSizesError(first_line(probe.cause)) from probe.cause


def _candidates(shapes: Sequence[Shape], probe: Probe, given: Mapping[str, Sequence[int]]) -> Iterator[Dimensions]:
    """Yields what the dimensions may be, the freest first: inferred shapes of a loop do not tell which must agree."""
    last = None
    for apart in _APART:
        try:
            dimensions = _dimensions(shapes, probe, given, apart)
        except UnknownSizesError:
            return
        if dimensions != last:
            yield dimensions
        last = dimensions


def _dimensions(
    shapes: Sequence[Shape], probe: Probe, given: Mapping[str, Sequence[int]], apart: Collection[str]
) -> Dimensions:
    dynamic = [(axis, dim) for shape in shapes for axis, dim in enumerate(shape) if not isinstance(dim, int)]
    if dynamic == [(0, None)] and not given:  # any batch will do
        named = [("batch", *shape[1:]) if shape and shape[0] is None else shape for shape in shapes]
        return Dimensions(named, {"batch": SizeRange()})  # type: ignore[arg-type]  # no other is None
    if not dynamic:
        return Dimensions(list(shapes), {})  # type: ignore[arg-type]  # none is None
    return find_dimensions(shapes, probe.takes, given, apart=apart, are_within_tables=probe.are_within_tables)


def _called(
    probe: Probe, dimensions: Dimensions, given: Mapping[str, Sequence[int]], start: int, bound: str | None
) -> tuple[Dimensions, dict[str, int], Any] | None:
    """Returns sizes at which the model does not raise, and what it returns; the ranges end there if need be."""
    lengths = [name for name in dimensions.ranges if not name.startswith("batch") and name not in given]
    is_sound = sum(dim in lengths for shape in dimensions.shapes for dim in shape) == 1
    if (bound and not lengths) or ((start, bound) == _START_OF_SOUND and not is_sound):
        return None
    sizes = spread(dimensions.ranges, 3, start)
    try:
        results = probe.call(dimensions.static(sizes))
    except Exception as error:  # whatever the kernels raise
        probe.cause = error
        return None
    if bound:
        bounds = {name: dimensions.ranges[name].bounded(bound, sizes[name]) for name in lengths}
        dimensions = replace(dimensions, ranges=dimensions.ranges | bounds)
    return dimensions, sizes, results


def _outputs(probe: Probe, dimensions: Dimensions, sizes: dict[str, int], results: Any) -> list[tuple[int | str, ...]]:
    rows = [(sizes, shapes_of(results))]
    for batch, start, factor in _ROWS if probe.infers else _ROWS_OF_A_BATCH if dimensions.ranges else ():
        more = spread(dimensions.ranges, batch, start, factor)
        try:
            rows.append((more, probe.measure(dimensions.static(more))))
        except Exception as error:  # ranges that hold one by one need not hold together
            probe.cause = error
    return name_outputs(rows)
