"""Matches weights with constants of other names by content, and finds the change of each weight."""

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping

import numpy as np

from keras_pe.export.parity.diagnosis.relations import Change, is_same
from keras_pe.export.parity.diagnosis.relations.detection import find_change
from keras_pe.export.parity.diagnosis.relations.rounding import stored_in_integers
from keras_pe.export.results import Array, Cause
from keras_pe.export.runtimes.runtime import LazyArrays

_AT_ONCE = 2**22  # numbers that are converted at once
_IN_CACHE = 2**16  # numbers that fit the cache of a processor while they are hashed
TELLING = 8  # number of different equal values that rules out a coincidence
_REORDERED = (Cause.REVERSED_VALUES, Cause.SHIFTED_ROWS)
_ANOTHER_ORDER = "It has the same values in another order, under every order of its axes."
_ALIKE = 0.9  # least cosine of a weight and a changed constant that only their likeness matches


def changes_by_content(
    weights: Mapping[str, Array],
    packed: Mapping[str, Array],
    constants: LazyArrays,
    computed: Container[str],
) -> Iterator[tuple[str, Change | None, Array | None]]:
    """Yields the weights that can be matched, each with its change; None if a constant equals the weight.

    The constant in the weight's shape comes third, if only its likeness matches it with the weight.

    Args:
        weights: The weights, by path.
        packed: Some weights in the form in which an exporter may pack them for an operator.
        constants: The unmatched constants, by name.
        computed: The paths of weights that an exporter has computed, with its own rounding.
    """
    same, unused = matched_by_content(weights, packed, constants, computed)
    for path, name in same.items():
        array = weights[path]
        if array.size == 1 or np.ptp(array) == 0:
            continue
        constant = constants[name]
        forms = [form for form in (packed.get(path), array) if form is not None and form.size == constant.size]
        forms = [form for form in forms if form.shape == constant.shape] or forms
        if path not in computed and all(_is_reordered(form, constant) for form in forms):
            yield path, _reordering(forms, constant), None
        elif any(_is_turned(form, constant) for form in forms):
            yield path, None, None
    lost = {path: (packed if path in packed else weights)[path].shape for path in weights if path not in same}
    for path, shape in lost.items():
        if _is_folded(path, lost):
            continue
        array = packed[path] if path in packed else weights[path]
        names = unused.get(array.size, [])
        change, stored = _quantization(array, constants, names), None
        if change is None:
            is_alone = list(lost.values()).count(shape) == 1
            stored = _nearest(array, constants, names)
            stored = _only_one(array, constants, names) if stored is None and is_alone else stored
            change = None if stored is None else find_change(array, stored)
        if change is not None:
            yield path, change, stored


def matched_by_content(
    weights: Mapping[str, Array],
    packed: Mapping[str, Array],
    constants: LazyArrays,
    computed: Container[str] = (),
) -> tuple[dict[str, str], dict[int, list[str]]]:
    """Returns the constant with the values of each weight, in any order, and the names of the other constants by size.

    Several constants may be equal throughout. Such a constant cannot be assigned to one weight and stays in the rest.

    Args:
        weights, packed, constants, computed: As in `changes_by_content`.
    """
    unused: dict[int, list[str]] = {}
    contents = {name: _content(constants.pieces(name)) for name in constants}
    for name, (size, _) in contents.items():
        unused.setdefault(size, []).append(name)
    found: dict[str, str] = {}
    for path, array in weights.items():
        forms = [packed[path], array] if path in packed else [array]
        matches = (_same(form, unused, contents, constants, path in computed) for form in forms)
        same = next((name for name in matches if name is not None), None)
        if same is None:
            continue
        found[path] = same
        if array.size > 1 and np.ptp(array) > 0:
            unused[contents[same][0]].remove(same)
    return found, unused


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


def is_stored_as(weight: Array, constant: Array) -> bool:
    """Whether a constant of equal shape is the weight, rounded to the constant's type if that differs."""
    is_float = constant.dtype.kind not in "iub"
    return is_float and all(
        np.array_equal(one.astype(other.dtype, copy=False), other, equal_nan=True)
        for one, other in _pieces(weight, constant)
    )


def is_stored_in(weight: Array, pieces: Iterable[Array]) -> bool:
    """As `is_stored_as`, for a constant that comes in pieces of rows and may have another shape."""
    own, start = np.atleast_1d(weight), 0
    for rows in map(np.atleast_1d, pieces):
        same = own[start : start + len(rows)]
        if same.shape != rows.shape or not is_stored_as(same, rows):
            return False
        start += len(rows)
    return start == len(own)


def _pieces(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Yields two arrays of equal shape in pieces, since temporary arrays of a large one do not fit in memory."""
    if one.ndim == 0 or one.size <= _AT_ONCE:
        yield one, other
        return
    rows = max(1, _AT_ONCE * len(one) // one.size)
    for start in range(0, len(one), rows):
        yield one[start : start + rows], other[start : start + rows]


def _same(
    weight: Array,
    unused: Mapping[int, Iterable[str]],
    contents: Mapping[str, tuple[int, int]],
    constants: Mapping[str, Array],
    is_computed: bool,
) -> str | None:
    """Returns a constant with the values of a weight, in any order; None without one."""
    names = unused.get(weight.size, ())
    if is_computed:
        values = np.sort(weight, axis=None)
        return next((name for name in names if is_same(np.sort(constants[name], axis=None), values)), None)
    own = _content([weight]) if names else None
    return next((name for name in names if contents[name] == own), None)


def _is_reordered(weight: Array, constant: Array) -> bool:
    """Whether a constant with a weight's values has them in an order that no transposition explains."""
    one, other = (np.squeeze(array) for array in (weight, constant))
    if one.ndim != other.ndim or sorted(one.shape) != sorted(other.shape):
        return False  # the exporter uses its own layout
    return next(_orders(one, other), None) is None


def _is_turned(weight: Array, constant: Array) -> bool:
    """Whether a constant is a transposed weight in which axes of equal size keep their order."""
    one, other = (np.squeeze(array) for array in (weight, constant))
    kept = (
        all(i < j for i, j in itertools.combinations(axes, 2) if other.shape[i] == other.shape[j])
        for axes in _orders(one, other)
    )
    return any(kept)


def _orders(one: Array, other: Array) -> Iterator[tuple[int, ...]]:
    """Yields the orders of axes that make one array equal to another."""
    orders = itertools.permutations(range(other.ndim))
    return (axes for axes in orders if np.array_equal(one, other.transpose(axes)))


def _reordering(forms: Iterable[Array], constant: Array) -> Change:
    """Returns the change of a weight whose values are all present: shifted, reversed, or only reordered."""
    changes = (find_change(form, turned) for form in forms for turned in forms_of(constant, form.shape))
    reordered = next((each for each in changes if each is not None and each.cause in _REORDERED), None)
    return reordered or Change(Cause.REORDERED_VALUES, _ANOTHER_ORDER)


def _is_folded(path: str, lost: Container[str]) -> bool:
    """Whether a weight belongs to a normalization whose scale and variance are missing.

    The exporter has then combined all its weights, so likeness proves nothing.
    """
    owner, _, name = path.rpartition("/")
    parts = ("gamma", "beta", "moving_mean", "moving_variance")
    return name in parts and f"{owner}/moving_variance" in lost and f"{owner}/gamma" in lost


def _content(pieces: Iterable[Array]) -> tuple[int, int]:
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


def _quantization(array: Array, constants: Mapping[str, Array], names: Iterable[str]) -> Change | None:
    """Returns the change of a weight that a constant stores in integers; None if no constant does."""
    stored = (constants[name] for name in names if constants[name].dtype.kind in "iu")
    forms = (turned for constant in stored for turned in forms_of(constant, array.shape))
    return next((found for turned in forms if (found := stored_in_integers(array, turned)) is not None), None)


def _nearest(array: Array, constants: Mapping[str, Array], names: Iterable[str]) -> Array | None:
    """Returns the constant with most values of a weight, or the most similar one; None if none is similar enough."""
    floats = (constants[name] for name in names if constants[name].dtype.kind not in "iu")
    forms = (turned for constant in floats for turned in forms_of(constant, array.shape))
    likeness = (
        (1.0 if differs_in_part(array, turned, is_named=False) else _likeness(array, turned), turned)
        for turned in forms
    )
    best = max(likeness, key=lambda pair: pair[0], default=None)
    return None if best is None or best[0] < _ALIKE else best[1]


def _only_one(array: Array, constants: Mapping[str, Array], names: Iterable[str]) -> Array | None:
    """Returns the constant of a weight's shape, if there is exactly one."""
    fitting = [constants[name] for name in names if constants[name].shape == array.shape]
    return fitting[0] if len(fitting) == 1 else None


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
