"""Finds values on both sides of each point at which a model's decision changes, by evaluating its graph on a line."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.float_types import EPSILON
from keras_pe.export.comparison.inputs.borders import Borders
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.decision_boundaries import KINDS, Answer, Decisions
from keras_pe.export.model.watch.known_values import is_integer
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import as_dtype

_MOST = {"direct": 256, "derived": 128, "stepped": 32, "weighted": 32}  # largest number of borders of each kind
_FEWEST = 8
_WORK = 2**22  # elements of an input for each halving of all steps
_MOST_ELEMENTS = 2**20  # elements of an input in one call
_LARGEST = 2.0**40
_LARGEST_OF = {"stepped": 2.0**12, "weighted": 2.0**6}  # largest value of the grid for some kinds of borders
_WIDTHS = (7, 8, 15, 16, 24, 31, 32, 33, 40)  # bits at which types end, or float32 merges neighbors
_SHORT = 16  # a border with at most this many significant bits is equal in float32 and float64
_SMALL = tuple((np.arange(-16, 17) / 8).tolist())  # `round` has ties there, and other steps begin
_NEAR, _BESIDE = 2.0**-16, 2.0**-5
_CLEAR = 2.0**-8  # distance beside a border after products with weights, whose rounding errors add up
_TINY = 1e-6  # smaller borders count as 0: they prevent a division by 0, or the search has ended beside 0
_ROUNDINGS = 64  # a value this many units from a border stays on its side, however the border is computed


def find_borders(name: str, decisions: Decisions, signature: Signature, *, is_short: bool = False) -> Borders:
    """Returns the borders of one input; all other inputs are as in the signature's example.

    All values of the input are equal during the search, so a border on each value and a border on their mean are found
    alike.

    Args:
        name: The input.
        decisions: The decisions of the model.
        signature: The signature of the model.
        is_short: Whether the model computes in 16 bits.
    """
    spec = next(each for each in signature.inputs if each.name == name)
    line = _Line(spec, decisions, signature)
    found: dict[str, list[tuple[float, float]]] = {}
    for kind, most in _MOST.items():
        if kind != "weighted" or not (is_short or is_integer(spec.dtype)):
            grid = _grid(spec, _LARGEST_OF.get(kind, _LARGEST))
            found[kind] = _search(partial(line.decide, kind), grid, spec, min(most, line.affordable))
    weighted = [low for low, _ in found.pop("weighted", ())]
    both = sorted({_border(pair) for pairs in found.values() for pair in pairs})
    step = max(EPSILON["float32"], *(EPSILON["bfloat16"] for _ in range(is_short)), EPSILON.get(spec.dtype, 0.0))
    beside = _beside(both, step, spec) + _clearly_beside(weighted, both)
    short = [border for border in sorted({*_SMALL, *both}) if _is_short(border)]
    exact = [] if is_integer(spec.dtype) else line.exact(short, step)
    low, high = _ends(line, spec)
    return Borders(line.fitting(beside), line.fitting(exact), low, high)


class _Line:
    """The decisions of a model as a function of one number, which all values of an input share."""

    def __init__(self, spec: TensorInfo, decisions: Decisions, signature: Signature) -> None:
        self._spec, self._decisions, self._signature = spec, decisions, signature
        shape = tuple(np.shape(signature.example()[spec.name]))
        self._rows_at = spec.shape[0] if spec.shape and isinstance(spec.shape[0], str) else None
        size = max(1, int(np.prod(shape[1:] if self._rows_at else shape)))
        self._per_call = max(1, _MOST_ELEMENTS // size) if self._rows_at else 1
        self.affordable = max(_FEWEST, _WORK // size)

    def __call__(self, values: Array) -> Answer:
        """Returns the decisions for each of some values."""
        parts = [self._decisions(*each) for each in self._batches(values, self._per_call)]
        decisions = {kind: np.concatenate([part.decisions[kind] for part in parts]) for kind in KINDS}
        return Answer(decisions, np.concatenate([part.fits for part in parts]))

    def decide(self, kind: str, values: Array) -> Array:
        """Returns the decisions of one kind for each of some values."""
        return self(values).decisions[kind]

    def fitting(self, values: list[float]) -> tuple[float, ...]:
        """Returns the values that casts and tables can represent."""
        if not values:
            return ()
        array = np.array(values)
        return tuple(array[self(array).fits].tolist())

    def exact(self, borders: list[float], step: float) -> list[float]:
        """Returns the borders at which all decisions that change compare exact values.

        A computed value that is short at the border and at a longer value on each side is not rounded.
        """
        at = np.array(borders)
        last_bits = np.exp2([float(np.frexp(border)[1] - _bits(border)) for border in borders])
        near = np.where(at != 0, _ROUNDINGS * step * np.abs(at), _TINY)
        rows = np.concatenate([at, at - near, at + near, at - last_bits / 2, at + last_bits / 2])
        parts = [self._decisions.site_values(*each) for each in self._batches(rows, max(1, self._per_call // _FEWEST))]
        is_border, is_rounded = np.zeros(len(at), bool), np.zeros(len(at), bool)
        for site in zip(*parts, strict=True):
            decided, short, zero = (np.concatenate(each).reshape(5, len(at), -1) for each in zip(*site, strict=True))
            changes = (decided[1:3] != decided[0]).any(axis=(0, 2))
            is_border |= changes
            is_exact = short[[0, 3, 4]].all(axis=(0, 2)) | (zero[0, :, 0] & (at == 0))
            is_rounded |= changes & ~is_exact
        found: list[float] = at[is_border & ~is_rounded].tolist()
        return found

    def _batches(self, values: Array, rows: int) -> Iterator[tuple[dict[str, Any], int]]:
        """Yields the inputs, and the number of rows, of each call for some values."""
        for start in range(0, len(values), rows):
            part = values[start : start + rows]
            sizes = dict(self._signature.sizes) | ({self._rows_at: len(part)} if self._rows_at else {})
            example: dict[str, Any] = self._signature.example(sizes)
            like = example[self._spec.name]
            column = part.reshape(-1, *(1,) * (len(like.shape) - 1)) if self._rows_at else part
            filled = np.broadcast_to(column, like.shape) if len(like.shape) else part.reshape(())
            example[self._spec.name] = filled.astype(as_dtype(self._spec.dtype))
            yield example, len(part)


def _search(decide: Callable[[Array], Array], grid: Array, spec: TensorInfo, most: int) -> list[tuple[float, float]]:
    """Returns at most `most` pairs of neighbors between which a decision changes.

    The search compares the decisions on a grid. It halves each step between two different points until the ends are
    neighbors in the type of the input.
    """
    keys = _keys(grid, spec)
    at = decide(_values(keys, spec))
    if not at.shape[1]:
        return []
    steps = [(keys[i], keys[i + 1], at[i], at[i + 1]) for i in range(len(keys) - 1) if (at[i] != at[i + 1]).any()]
    done: list[tuple[int, int]] = []
    while steps:
        done += [(low, high) for low, high, *_ in steps if high - low <= 1]
        steps = _thin([step for step in steps if step[1] - step[0] > 1], most - len(done))
        if not steps:
            break
        middles = np.array([(low + high) // 2 for low, high, *_ in steps])
        between = decide(_values(middles, spec))
        halves = [
            half
            for (low, high, one, other), middle, own in zip(steps, middles, between, strict=True)
            for half in ((low, middle, one, own), (middle, high, own, other))
        ]
        steps = [half for half in halves if (half[2] != half[3]).any()]
    ends = [_values(np.array(pair), spec) for pair in done]
    return [(float(low), float(high)) for low, high in ends]


def _thin(steps: list[Any], most: int) -> list[Any]:
    """Returns at most `most` steps, evenly spaced."""
    if len(steps) <= most:
        return steps
    return [steps[i] for i in np.unique(np.linspace(0, len(steps) - 1, max(most, 0)).astype(int))]


def _grid(spec: TensorInfo, largest: float) -> Array:
    """Returns sorted values of all magnitudes, including all small integers."""
    dtype = as_dtype(spec.dtype)
    powers = 2.0 ** np.arange(0 if is_integer(spec.dtype) else -14, np.log2(largest) + 1)
    one_side = np.unique(np.concatenate([powers, 1.5 * powers, np.arange(1, 33)]))
    both = np.concatenate([-one_side[::-1], [0.0], one_side])
    if not is_integer(spec.dtype):
        held: Array = both[np.abs(both) < (65_504 if spec.dtype == "float16" else np.inf)]
        return held
    ends = np.iinfo(dtype)
    return np.unique(np.floor(both[(both >= ends.min) & (both <= ends.max)]))


def _keys(values: Array, spec: TensorInfo) -> Array:
    """Returns an integer for each value, with neighbors for neighbors. Floats are taken as float32."""
    if is_integer(spec.dtype):
        return values.astype(np.int64)
    bits = values.astype(np.float32).view(np.int32).astype(np.int64)
    keys: Array = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return keys


def _values(keys: Array, spec: TensorInfo) -> Array:
    if is_integer(spec.dtype):
        return keys
    bits = np.where(keys < 0, -keys | 0x80000000, keys).astype(np.uint32)
    found: Array = bits.view(np.float32).astype(np.float64)
    return found


def _border(pair: tuple[float, float]) -> float:
    """Returns the neighbor with fewer significant bits, since borders in code have few; 0 if the border is tiny."""
    return _untiny(min(pair, key=_bits))


def _bits(value: float) -> int:
    mantissa = int(np.frexp(abs(value))[0] * 2**53)
    return 0 if not mantissa else 54 - (mantissa & -mantissa).bit_length()


def _is_short(border: float) -> bool:
    return _bits(border) <= _SHORT


def _beside(borders: list[float], step: float, spec: TensorInfo) -> list[float]:
    """Returns values on both sides of each border: next to it, at some distance, and half way to the next.

    Borders without a safe value between them are skipped, since rounding can exchange their sides.
    """
    found: list[float] = []
    for number, border in enumerate(borders):
        size = max(abs(border), 1.0)
        for side, neighbor in ((-1, number - 1), (1, number + 1)):
            gap = abs(borders[neighbor] - border) if 0 <= neighbor < len(borders) else 2 * size
            if is_integer(spec.dtype):
                found += [border, border + side, border + side * 2, border + side * (gap // 2)]
                continue
            least = _ROUNDINGS * step * (abs(border) or min(size, gap))
            if gap < 4 * least:
                continue
            near = min(max(_NEAR * (abs(border) or size), least), gap / 4)
            found += [border + side * distance for distance in (near, max(near, _BESIDE * min(gap, size)), gap / 2)]
    if is_integer(spec.dtype):
        ends = np.iinfo(as_dtype(spec.dtype))
        found = [value for value in found if ends.min <= value <= ends.max]
    return list(dict.fromkeys(found))


def _clearly_beside(borders: list[float], others: list[float]) -> list[float]:
    """Returns values on both sides of each border after products with weights, clear of all borders."""
    all_borders = np.array([*borders, *others])
    values = (border + side * _CLEAR * max(abs(border), _CLEAR) for border in borders for side in (-1, 1))
    return [each for each in values if (np.abs(all_borders - each) > _CLEAR**2 * max(abs(each), _CLEAR)).all()]


def _ends(line: _Line, spec: TensorInfo) -> tuple[float | None, float | None]:
    """Returns the ends of the values around 0, or of the smallest values, that casts and tables can represent."""
    grid = _grid(spec, _LARGEST)
    fits = line(grid).fits
    if fits.all() or not fits.any():
        return None, None
    start = min(np.flatnonzero(fits), key=lambda i: abs(grid[i]))
    pairs = _search(lambda values: line(values).fits[:, None], grid, spec, 16)
    below = [high for _, high in pairs if high <= grid[start]]
    above = [high for low, high in pairs if low >= grid[start]]
    low, high = (max(below) if below else None), (min(above) if above else None)
    return (None if low is None else _untiny(low)), high


def _untiny(value: float) -> float:
    return value if abs(value) > _TINY else 0.0


def wide_integers(dtype: str) -> tuple[int, ...]:
    """Returns integers of both signs around the ends of narrower types and beyond, within the range of a type."""
    ends = np.iinfo(as_dtype(dtype))
    around = [sign * 2**each + more for each in _WIDTHS for sign in (1, -1) for more in (-1, 0, 1, 12_345)]
    return tuple(each for each in around if ends.min <= each <= ends.max)
