"""Compares a weight with one constant, in any layout: equal, changed in part, reordered, rounded, or similar."""

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from keras_pe.export.parity.diagnosis.relations import Change
from keras_pe.export.parity.diagnosis.relations.detection import find_change
from keras_pe.export.parity.diagnosis.relations.rounding import stored_in_integers
from keras_pe.export.results import Array, Cause

_AT_ONCE = 2**22  # numbers that are converted at once
_IN_CACHE = 2**16  # numbers that fit the cache of a processor while they are hashed
TELLING = 8  # number of different equal values that rules out a coincidence
_REORDERED = (Cause.REVERSED_VALUES, Cause.SHIFTED_ROWS)
_ANOTHER_ORDER = "It has the same values in another order, under every order of its axes."
_ALIKE = 0.9  # least cosine of a weight and a changed constant that only their likeness matches


def differs_in_part(weight: Array, constant: Array, is_named: bool) -> bool:
    """Whether a constant is a partly changed weight, with most of its values equal bit for bit.

    Folding or rounding in an exporter leaves hardly any equal values except zeros.

    Args:
        weight: The weight.
        constant: The constant, of equal shape.
        is_named: Whether the constant has the weight's name. Without it, a few different values do not suffice.
    """
    count, same, values = 0, 0, set[float]()
    for one, other in _pieces(weight, constant):
        is_same = (one == other) & (one != 0)
        count, same = count + int(np.count_nonzero(one)), same + int(np.count_nonzero(is_same))
        if len(values) < TELLING:
            values.update(np.unique(one[is_same])[:TELLING].tolist())
    return 2 * same > count and (is_named or len(values) >= TELLING)


def is_stored_as(weight: Array, pieces: Iterable[Array]) -> bool:
    """Whether a constant, in pieces of rows, is the weight, rounded to the constant's type if that differs."""
    own, start = np.atleast_1d(weight), 0
    for rows in map(np.atleast_1d, pieces):
        same = own[start : start + len(rows)]
        start += len(rows)
        if same.shape != rows.shape or rows.dtype.kind in "iub":
            return False
        pairs = ((one.astype(other.dtype, copy=False), other) for one, other in _pieces(same, rows))
        if not all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
            return False
    return start == len(own)


def _pieces(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Yields two arrays of equal shape in pieces, since temporary arrays of a large one do not fit in memory."""
    if one.ndim == 0 or one.size <= _AT_ONCE:
        yield one, other
        return
    rows = max(1, _AT_ONCE * len(one) // one.size)
    for start in range(0, len(one), rows):
        yield one[start : start + rows], other[start : start + rows]


def orders_of(weight: Array, constant: Array) -> list[bool] | None:
    """Returns whether axes of equal size keep their order, for each order of axes that makes a constant the weight.

    Returns None if the shapes differ in more than the order, since the exporter then uses its own layout.
    """
    one, other = (np.squeeze(array) for array in (weight, constant))
    if sorted(one.shape) != sorted(other.shape):
        return None
    orders = itertools.permutations(range(other.ndim))
    return [
        all(i < j for i, j in itertools.combinations(axes, 2) if other.shape[i] == other.shape[j])
        for axes in orders
        if np.array_equal(one, other.transpose(axes))
    ]


def reordering(forms: Iterable[Array], constant: Array) -> Change:
    """Returns the change of a weight whose values are all present: shifted, reversed, or only reordered."""
    changes = (find_change(form, turned) for form in forms for turned in forms_of(constant, form.shape))
    reordered = next((each for each in changes if each is not None and each.cause in _REORDERED), None)
    return reordered or Change(Cause.REORDERED_VALUES, _ANOTHER_ORDER)


def content(pieces: Iterable[Array]) -> tuple[int, int]:
    """Returns the number of values of an array, and a hash that ignores their order and type.

    The hash is the sum of the values' mixed bits. Sorting would need a copy in memory.
    """
    size, total = 0, 0
    for flat in (piece.ravel(order="K") for piece in pieces):
        size += flat.size
        for start in range(0, flat.size, _IN_CACHE):
            bits = (flat[start : start + _IN_CACHE].astype(np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
            bits *= np.uint64(0x9E3779B97F4A7C15)
            bits ^= bits >> np.uint64(32)
            bits *= np.uint64(0xD6E8FEB86659FD93)
            bits ^= bits >> np.uint64(32)
            total += int(bits.sum(dtype=np.uint64))
    return size, total % 2**64


def quantization(array: Array, constants: Mapping[str, Array]) -> Change | None:
    """Returns the change of a weight that a constant stores in integers; None if no constant does."""
    stored = (constant for constant in constants.values() if constant.dtype.kind in "iu")
    forms = (turned for constant in stored for turned in forms_of(constant, array.shape))
    return next((found for turned in forms if (found := stored_in_integers(array, turned)) is not None), None)


def nearest(array: Array, constants: Mapping[str, Array], *, is_alone: bool) -> tuple[float, Array | None]:
    """Returns the likeness of a weight and the most similar constant, and this constant in the weight's shape.

    The likeness is infinite if most values are equal. If no constant is similar, a weight whose shape is unique among
    the weights has the only constant of its shape.
    """
    floats = (constant for constant in constants.values() if constant.dtype.kind not in "iu")
    forms = (turned for constant in floats for turned in forms_of(constant, array.shape))
    likeness = (
        (np.inf if differs_in_part(array, turned, is_named=False) else _likeness(array, turned), turned)
        for turned in forms
    )
    best = max(likeness, key=lambda pair: pair[0], default=(0.0, array))
    if best[0] >= _ALIKE:
        return best
    fitting = [constant for constant in constants.values() if is_alone and constant.shape == array.shape]
    return 0.0, fitting[0] if len(fitting) == 1 else None


def forms_of(constant: Array, shape: tuple[int, ...]) -> list[Array]:
    """Returns a constant in a weight's shape, for each possible order of axes; axes of size 1 are ignored.

    Axes of the weight may be merged in a constant with fewer axes, as the heads and channels of an attention. Otherwise
    a constant with another number of axes is only reshaped.
    """
    own, wide = np.squeeze(constant), tuple(size for size in shape if size != 1)
    if sorted(own.shape) != sorted(wide) and not 1 < own.ndim < len(wide):
        return [constant.reshape(shape)] if constant.ndim != len(shape) else []
    orders = itertools.permutations(range(len(wide)))
    split = [(axes, [wide[axis] for axis in axes]) for axes in orders]
    ends = set(np.cumprod(own.shape))
    return [
        own.reshape(sizes).transpose(np.argsort(axes)).reshape(shape)
        for axes, sizes in split
        if ends <= set(np.cumprod(sizes))
    ]


def _likeness(one: Array, other: Array) -> float:
    """Returns the absolute cosine between two arrays, over the values that are finite in both."""
    products = np.zeros(3)
    for pieces in _pieces(one, other):
        wide = [piece.astype(np.float64).ravel() for piece in pieces]
        is_known = np.isfinite(wide[0]) & np.isfinite(wide[1])
        a, b = (piece[is_known] for piece in wide)
        products += (a @ b, a @ a, b @ b)
    lengths = np.sqrt(products[1] * products[2])
    return float(abs(products[0]) / lengths) if lengths > 0 else 0.0
