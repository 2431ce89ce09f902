"""The positions of one axis as int32 numbers and fractions, from any argument of a layer's call."""

from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.rotations.fractional import PART_BITS
from keras_pe.rotations.static_values import align_dtypes, count_up, visible
from keras_pe.signal.layouts import is_integer

OUT_OF_REACH = 2**29  # several of these can be added in int32
_LAST = 2**31 - 1  # largest int32
_NARROW = ("int8", "uint8", "int16", "uint16")
_PARTS = 4  # parts of a float64 fraction


class Positions(NamedTuple):
    """Positions along one axis: a range from a scalar `start` on, or `(length,)` or `(batch, length)` of their own.

    Floats have the integers below them (`whole`), the `nearest` integers, and the `fraction` from the nearest. The
    fraction is a tensor, or the parts that `split_on_host` makes.
    """

    whole: Any | None = None
    nearest: Any | None = None
    fraction: Any | None = None
    start: Any | None = None

    def cast(self, dtype: str) -> Any:
        """Returns float positions in a dtype that may hold fewer of their digits."""
        parts = self.fraction if isinstance(self.fraction, list) else [self.fraction]
        total = ops.cast(self.nearest, dtype)
        for place, part in enumerate(parts):
            total = total + ops.cast(part, dtype) * 2.0 ** (-PART_BITS * place)
        return total


def split_on_host(positions: Any) -> Any:
    """Returns NumPy floats of 64 bits, or a list of them, as nearest integers and parts of fractions, others unchanged.

    JAX without 64 bits would round such a position to 24 bits, which leaves no fraction of a million. The unit
    of each part is `2**-20` of the unit before. All parts but the last are whole numbers of their units, stored in the
    unit before.
    """
    if isinstance(positions, (list, tuple)):
        return [split_on_host(each) for each in positions]
    if not isinstance(positions, np.ndarray) or positions.dtype.kind != "f" or positions.itemsize < 8:
        return positions
    with np.errstate(invalid="ignore"):
        nearest = np.clip(np.round(positions), -_LAST, _LAST)
        integers = nearest.astype("int32")
    # A position beyond int32 stays beyond it in the sum with its fraction. A NaN has no fraction but NaN.
    rest, parts = np.clip(positions - nearest, -1e30, 1e30), []
    for _ in range(_PARTS - 1):
        units = np.round(rest * 2.0**PART_BITS)
        parts.append((units / 2.0**PART_BITS).astype("float32"))
        rest = rest * 2.0**PART_BITS - units
    return {"nearest": integers, "fraction": [*parts, rest.astype("float32")]}


def open_positions(values: Any) -> Any:
    """Returns positions of one axis as Keras passes them to `call`: `Positions` if `split_on_host` split them.

    Keras passes a dict on, saves it with a model, and loads it again, which it does not do for a tuple with names.
    """
    return Positions(nearest=values["nearest"], fraction=[*values["fraction"]]) if isinstance(values, dict) else values


def join_parts(split: Positions) -> npt.NDArray[np.float64] | None:
    """Returns the positions that `split_on_host` split, or None if their values cannot be seen."""
    parts = [visible(each) for each in (split.nearest, *(split.fraction or ()))]
    total = np.float64(0.0)
    for exponent, part in zip((0, *range(0, -PART_BITS * _PARTS, -PART_BITS)), parts, strict=True):
        if part is None:
            return None
        total = total + part.astype(np.float64) * 2.0**exponent
    return np.asarray(total)


def resolve_positions(
    values: Any | None, start: Any | None, length: Any, *, subtracted: bool = False
) -> Positions | None:
    """Returns the positions of one axis, `start` added, or None for the plain `0, ..., length - 1`.

    Args:
        values: A tensor or `Positions`.
        start: As a layer was called.
        length: Length of the axis.
        subtracted: Whether positions will be subtracted from each other. Their reach is then `OUT_OF_REACH`.
    """
    if values is None:
        if start is None:
            return None
        # A range from a start that is out of reach must not come back into it.
        start = int(start) if is_integer(start) else _as_integers(start, subtracted, 2 * OUT_OF_REACH)
        if isinstance(start, int) or not len(start.shape):
            return Positions(start=start)
        first, steps = align_dtypes(ops.expand_dims(start, -1), count_up(length))
        return Positions(whole=first + steps)
    integers, fraction = _split(values)
    if start is None:
        integers = _as_integers(integers, subtracted or fraction is not None)
    else:
        column = start if is_integer(start) or not len(start.shape) else ops.expand_dims(start, -1)
        integers = _sum(integers, column)
    if fraction is None:
        return Positions(integers)
    parts = fraction if isinstance(fraction, list) else [fraction]
    if len(integers.shape) > len(parts[0].shape):
        parts = [ops.expand_dims(part, 0) for part in parts]
    below = ops.cast(_is_negative(parts), "int32")
    return Positions(integers - below, integers, parts if isinstance(fraction, list) else parts[0])


def _split(values: Any) -> tuple[Any, Any | None]:
    """Returns integers, and the fractions from them: None, a tensor, or parts of it.

    The distance from the nearest integer is exact. That from the integer below is not for a small negative position.
    """
    if isinstance(values, Positions):
        return values.nearest, values.fraction
    if "float" not in keras.backend.standardize_dtype(values.dtype):
        return values, None
    nearest = ops.round(values)
    return nearest, values - nearest


def _is_negative(parts: list[Any]) -> Any:
    """Returns whether a fraction is negative: whether the first of its parts that is not 0 is."""
    first, *others = parts
    if not others:
        return first < 0
    return ops.logical_or(first < 0, ops.logical_and(ops.equal(first, 0), _is_negative(others)))


def _sum(values: Any, start: Any) -> Any:
    """Returns integers plus a start as int32: sums out of reach stay out of reach, also where int32 overflows."""
    values, start = (values, start) if is_integer(start) else align_dtypes(values, start)
    dtypes = [keras.backend.standardize_dtype(getattr(each, "dtype", "int32")) for each in (values, start)]
    if any(dtype in ("int64", "uint64") for dtype in dtypes):
        return _as_integers(_as_wide(values) + _as_wide(start), True)
    # Additions of int32 wrap: a sum is right if it is small, and float32 is exact enough to see that.
    total = _cast_to_int32(values) + _cast_to_int32(start)
    if visible(values) is not None and visible(start) is not None:
        return total  # it is in reach, or was refused
    estimates = [ops.cast(each, "float32") for each in (values, start)]
    inside = ops.abs(estimates[0] + estimates[1]) < OUT_OF_REACH
    for estimate, dtype in zip(estimates, dtypes, strict=True):
        if dtype not in ("int32", *_NARROW):  # integers beyond int32 were wrapped
            inside = ops.logical_and(inside, ops.abs(estimate) < 2.0**31)
    return ops.where(inside, total, OUT_OF_REACH)


def _as_wide(values: Any) -> Any:
    """Returns integers or whole floats as int64, of which two can be added."""
    if is_integer(values):
        return int(values)
    dtype = keras.backend.standardize_dtype(values.dtype)
    if dtype in ("int64", "uint64") or "float" in dtype:
        values = ops.clip(values, 0 if dtype.startswith("u") else -(2**61), 2**61)
    return ops.cast(values, "int64")


def _cast_to_int32(values: Any) -> Any:
    """Casts integers or whole floats to int32; larger values become its largest."""
    if is_integer(values):
        if abs(values) > _LAST:
            raise ArgValueError(
                "start_index",
                f"must be from {-_LAST:,} to {_LAST:,} with positions of 32 bits. Received: start_index={values}.",
            )
        return int(values)
    dtype = keras.backend.standardize_dtype(values.dtype)
    if "float" in dtype:
        values = ops.cast(values, "float32") if dtype in ("float16", "bfloat16") else values
        values = ops.clip(values, -(2.0**31) + 128, 2.0**31 - 128)  # the float32 next to the limits
    elif dtype == "uint32":
        values = ops.minimum(values, _LAST)
    return ops.cast(values, "int32")


def _as_integers(values: Any, may_overflow: bool, most: int = OUT_OF_REACH) -> Any:
    """Casts whole numbers to int32, clipping at `most` first if values could overflow."""
    dtype = keras.backend.standardize_dtype(values.dtype)
    if dtype not in _NARROW and (may_overflow or dtype != "int32"):
        values = ops.clip(values, 0 if dtype.startswith("u") else -most, most)
    return ops.cast(values, "int32")
