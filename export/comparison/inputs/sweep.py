"""Draws a seeded sweep of inputs over shapes and values that reveal faults."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.borders import dealt
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.decision_points import wide_integers
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.model.sizes.dimensions import (
    BUFFER,
    SPARE,
    Dimension,
    Kind,
    all_dimensions,
    sizes_from_counts,
    sizes_in_words,
)
from keras_pe.export.model.watch.known_values import draw_numbers, draw_texts, is_integer
from keras_pe.export.results import HALF, Array
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

_SHAPES = (
    # batch, length, then other dynamic dimensions in turn; all sizes in a row differ
    ((2, 13, 5, 7, 3), "a prime length"),
    ((8, 1, 5, 2, 7), "one step, and a batch beyond the usual"),
    ((8, 2, 7, 5, 11), "two steps, fewer than the batch"),
    ((1, 31, 6, 3, 13), "a batch of one"),
    ((2, 67, 9, 4, 17), "just past a power of two"),
    ((1, 521, 8, 10, 5), "longer than usual traces"),
)

_LONGEST_SIDE = 97  # side of an image; attention over its points takes memory for every pair of them

_MOST_ROWS, _FEW_ROWS = 512, 8  # most rows of a case with borders, for small and for large rows
_MOST_ELEMENTS = 2**18
_MOST_TEXTS = 64  # fewer than other rows, since each text becomes many tokens
_MOST_TURNS = 4

_POSITIONS = (0, 1, 15, 16, 255, 256, 257, 2047, 2048, 2049, 10_000, 65_504, 65_505, 100_003, 2**24 - 1)


def sweep(
    inputs: tuple[TensorInfo, ...], roles: Mapping[str, Role], seed: int, known: Mapping[str, Dimension] | None = None
) -> tuple[Case, ...]:
    """Returns the cases for a signature.

    Args:
        inputs: The inputs of the model. Dynamic dimensions with equal names get equal sizes, others different sizes.
        roles: The role of an input, by name; the default is "values".
        seed: The seed of the random numbers.
        known: Known dynamic dimensions, by name.
    """
    dimensions = all_dimensions([spec.shape for spec in inputs], known or {})
    sizes = [
        (sizes_from_counts(dimensions, _counts(dimensions, row, turn)), why) for turn, (row, why) in enumerate(_SHAPES)
    ]
    distinct = {tuple(size.items()): (size, why) for size, why in reversed(sizes)}  # a static model has one
    cases = []
    for number, (size, why) in enumerate(reversed(distinct.values())):
        rng = np.random.default_rng([seed, number])
        name = sizes_in_words(size) or "static shapes"
        cases.append(Case(name, _draw(inputs, roles, size, rng, _usual), why, size))
    cases = _with_rows_dealt(cases, inputs, roles, np.random.default_rng([seed, len(_SHAPES) + 1]))
    size = sizes[0][0]
    for name, why, is_concerned, draw in _EXTREMES:
        if any(is_concerned(spec, _role(spec, roles)) for spec in inputs):
            rng = np.random.default_rng([seed, len(_SHAPES)])
            cases.append(Case(name, _draw(inputs, roles, size, rng, draw), why, size))
    cases += _dealt_cases(inputs, roles, dimensions, size, seed)
    first = cases[0]
    again = replace(first, name=f"{first.name}, again", purpose="the first case again", repeats=first.name)
    return (*cases, again)


def _dealt_cases(
    inputs: tuple[TensorInfo, ...],
    roles: Mapping[str, Role],
    dimensions: Mapping[str, Dimension],
    size: Mapping[str, int],
    seed: int,
) -> Iterator[Case]:
    """Yields cases with wide integers, and with values next to and on the borders of the model's decisions."""
    for name, why, chosen in _DEALT:
        values = {spec.name: each for spec in inputs if (each := chosen(spec, _role(spec, roles)))}
        if not values:
            continue
        wanted = 2 * max(map(len, values.values()))
        sizes = _with_rows(inputs, dimensions, size, wanted)
        rng = np.random.default_rng([seed, len(_SHAPES) + 2])
        drawn = _draw(inputs, roles, sizes, rng, _usual)
        rows = min(len(drawn[each]) if drawn[each].ndim else 1 for each in values)
        turns = min(_MOST_TURNS, -(-wanted // rows))
        for turn in range(turns):
            own = {each: dealt(v, drawn[each].shape, turn).astype(drawn[each].dtype) for each, v in values.items()}
            yield Case(f"{name} {turn + 1}" if turns > 1 else name, {**drawn, **own}, why, sizes)


def _with_rows(
    inputs: tuple[TensorInfo, ...], dimensions: Mapping[str, Dimension], size: Mapping[str, int], wanted: int
) -> dict[str, int]:
    """Returns sizes with the wanted number of rows, or with as many large rows as are affordable."""
    shapes = [tuple(size[dim] if isinstance(dim, str) else dim for dim in spec.shape[1:]) for spec in inputs]
    affordable = max(_FEW_ROWS, _MOST_ELEMENTS // max(1, sum(int(np.prod(shape)) for shape in shapes)))
    rows = min(wanted, affordable, _MOST_TEXTS if any(spec.dtype == "string" for spec in inputs) else _MOST_ROWS)
    batches = {name: own for name, own in dimensions.items() if own.kind is Kind.BATCH}
    return {**size, **{name: own.sizes.near(max(rows, 2)) for name, own in batches.items()}}


def draw_case(inputs: tuple[TensorInfo, ...], roles: Mapping[str, Role], sizes: Mapping[str, int], seed: int) -> Arrays:
    """Returns usual inputs with some sizes."""
    return _draw(inputs, roles, sizes, np.random.default_rng(seed), _usual)


def _counts(dimensions: Mapping[str, Dimension], row: tuple[int, ...], turn: int) -> dict[str, int]:
    """Returns the count of each dimension from a row: the batch has the first, the first length the second.

    If the first axes of the inputs differ, as for nodes and edges, none of them is the batch. They then take turns with
    the first length.
    """
    batches = [name for name, own in dimensions.items() if own.kind is Kind.BATCH]
    batch = batches[0] if len(batches) == 1 else None
    length = next((name for name, own in dimensions.items() if own.kind is Kind.LENGTH), None)
    firsts = [name for name in (batch, length) if name]
    if len(batches) > 1:
        equal = [*firsts, *batches]
        firsts = [*equal[turn % len(equal) :], *equal[: turn % len(equal)]]
    ordered = firsts + [name for name in dimensions if name not in firsts]
    offset = 1 if batch is None and (length or batches) else 0  # 1 if the batch is static or missing
    more = [*row, *range(max(row) + 1, max(row) + 1 + len(dimensions))]
    is_side = {name: own.kind in (Kind.HEIGHT, Kind.WIDTH) for name, own in dimensions.items()}
    counts = {name: more[offset + i] for i, name in enumerate(ordered)}
    return {name: min(count, _LONGEST_SIDE) if is_side[name] else count for name, count in counts.items()}


def _draw(
    inputs: tuple[TensorInfo, ...],
    roles: Mapping[str, Role],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    values: Callable[[TensorInfo, Role, tuple[int, ...], np.random.Generator], Array],
) -> Arrays:
    arrays = {}
    for spec in inputs:
        shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape)
        drawn = values(spec, _with_bounds(spec, _role(spec, roles), sizes), shape, rng)
        array = np.asarray(drawn).astype(as_dtype(spec.dtype))
        if BUFFER in spec.shape and SPARE in sizes:  # a runtime may clear the rows after the call, or leave them
            array[(slice(None),) * spec.shape.index(BUFFER) + (slice(-sizes[SPARE], None),)] = 0
        arrays[spec.name] = array
    return arrays


def _role(spec: TensorInfo, roles: Mapping[str, Role]) -> Role:
    return roles.get(spec.name, Role("values"))


def _with_bounds(spec: TensorInfo, role: Role, sizes: Mapping[str, int]) -> Role:
    """Returns the role of an input at some sizes, for integers with both ends. An index ends at its dimension's size.

    Other integers reach the largest size, since they may be counts.
    """
    if role.below is not None:
        return replace(role, high=sizes[role.below])
    if not is_integer(spec.dtype):
        return role
    ends = np.iinfo(as_dtype(spec.dtype))
    low = max(-64, int(ends.min)) if role.low is None else role.low
    usual = [low + 128, *(size + 1 for size in sizes.values())]
    return replace(role, low=low, high=min(max(usual), int(ends.max)) if role.high is None else role.high)


def _usual(spec: TensorInfo, role: Role, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draws usual values of a model's input, including negative integers."""
    if spec.dtype == "bool":
        mask = np.atleast_1d(rng.random(shape) < 0.7)
        mask[..., :1] = True  # a row without any valid position is a separate case
        return mask.reshape(shape)
    if spec.dtype == "string":
        return draw_texts(role.vocabulary, shape, rng)
    if is_integer(spec.dtype):
        assert role.low is not None
        assert role.high is not None
        drawn = rng.integers(int(role.low), int(role.high), shape)
        if role.role == "ids" and role.low == 0:
            drawn[_is_padded(shape)] = 0
        return draw_numbers(role.vocabulary, drawn, rng)
    if role.low is not None and role.high is not None:
        return rng.uniform(role.low, role.high, shape)
    if _is_position(spec, role):
        return rng.uniform(-64, 64, shape)
    return rng.standard_normal(shape)


def _is_padded(shape: tuple[int, ...]) -> Array:
    """Returns the positions of usual padding ids: at the end of every second row."""
    padded = np.zeros(shape, bool)
    if len(shape) > 1:
        padded[1::2, -(shape[1] // 4) or shape[1] :] = True
    return padded


def _with_rows_dealt(
    cases: Sequence[Case], inputs: tuple[TensorInfo, ...], roles: Mapping[str, Role], rng: np.random.Generator
) -> list[Case]:
    """Returns the cases with ids that only repeat after each row of their table has occurred once."""
    dealt = [dict(case.inputs) for case in cases]
    for spec in inputs:
        role = _role(spec, roles)
        if role.role != "ids" or role.low is None or role.high is None or role.vocabulary.entries:
            continue
        free = [~_is_padded(each[spec.name].shape) for each in dealt]
        rows, wanted = int(role.high - role.low), sum(int(each.sum()) for each in free)
        ids = iter(int(role.low) + np.resize(rng.choice(rows, min(rows, wanted), replace=False), wanted))
        for each, places in zip(dealt, free, strict=True):
            array = each[spec.name].copy()
            array[places] = list(itertools.islice(ids, int(places.sum())))
            each[spec.name] = array
    return [replace(case, inputs=each) for case, each in zip(cases, dealt, strict=True)]


def _is_mask(spec: TensorInfo, role: Role) -> bool:
    return spec.dtype == "bool" or role.role == "ids"


def _padding(spec: TensorInfo, role: Role, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draws values that are all padding: False for masks, 0 for token ids."""
    if spec.dtype == "bool" or (role.role == "ids" and (role.low or 0) <= 0):
        return np.zeros(shape)
    return _usual(spec, role, shape, rng)


def _is_position(spec: TensorInfo, role: Role) -> bool:
    return role.role in ("positions", "start")


def _far(spec: TensorInfo, role: Role, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draws positions at which tables end and short floats merge neighbors."""
    if not _is_position(spec, role) or spec.dtype in HALF:
        return _usual(spec, role, shape, rng)
    low = -float("inf") if role.low is None else role.low
    high = float("inf") if role.high is None else role.high
    # A start is added to every position of the sequence, so the limit leaves room for 300 positions.
    fair = [p for p in (*_POSITIONS, *(-p for p in _POSITIONS)) if low <= p < high - 300 * (role.role == "start")]
    fair = [p for p in fair if abs(p) + 300 * (role.role == "start") < 2**24] or [0]
    return np.resize(np.array(fair), shape)


def _is_number(spec: TensorInfo, role: Role) -> bool:
    return role.role == "values" and as_dtype(spec.dtype).kind == "f"


def _large(spec: TensorInfo, role: Role, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draws values beyond the range of float16."""
    usual = _usual(spec, role, shape, rng)
    is_free = _is_number(spec, role) and role.low is None and spec.dtype != "float16"
    return usual * 1.0e5 if is_free else usual


# Each row has the name and the purpose of a case, the inputs that it concerns, and the function that draws it.
_EXTREMES = (
    ("all padding", "a mask of padding only", _is_mask, _padding),
    ("far positions", "positions at and past the ends of tables and of float16", _is_position, _far),
    ("large values", "values beyond half precision", _is_number, _large),
)


def _wide(spec: TensorInfo, role: Role) -> tuple[int, ...]:
    return wide_integers(spec.dtype) if role.is_wide else ()


def _entries(spec: TensorInfo, role: Role) -> Sequence[float] | Sequence[str]:
    """Returns the entries of an input's vocabulary, with the integers beside them unless the model refuses those."""
    if spec.dtype == "string":
        return role.vocabulary.words
    beside = (0,) if role.vocabulary.is_closed else (-1, 0, 1)
    found = dict.fromkeys(number + step for number in role.vocabulary.numbers for step in beside)
    return [number for number in found if number in _range_of(spec)] if found else []


def _range_of(spec: TensorInfo) -> range:
    ends = np.iinfo(as_dtype(spec.dtype))
    return range(int(ends.min), int(ends.max) + 1)


# Each row has the name and the purpose of a case, and the values that its rows contain.
_DEALT: tuple[tuple[str, str, Callable[[TensorInfo, Role], Sequence[float] | Sequence[str]]], ...] = (
    ("every entry", "each word and number that the model looks up", _entries),
    ("wide integers", "integers beyond narrower types", _wide),
    ("beside borders", "values on both sides of thresholds, bins and steps", lambda _, role: role.borders.beside),
    ("on borders", "values equal to thresholds", lambda _, role: role.borders.exact),
)
