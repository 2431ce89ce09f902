"""The formula: the timescales, and the exact signal of given positions in float64 NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.signal.layouts import Layout, assemble, check_channels, check_layout

Float64Array = npt.NDArray[np.float64]


def geometric_timescales(
    count: int, min_timescale: float = 1.0, max_timescale: float = 1.0e4, *, endpoint: bool = True
) -> Float64Array:
    """Returns tensor2tensor's geometric sequence of timescales.

    `timescale[i] = (max_timescale / min_timescale) ** (i / steps) / min_timescale`, where `steps` is `count - 1` with
    `endpoint` and `count` without. tensor2tensor's documentation says that the sequence runs from `min_timescale` to
    `max_timescale`. Its code multiplies by `min_timescale` instead of dividing, so the sequence runs from `1 /
    min_timescale` to `max_timescale / min_timescale**2`. This function does the same. For a sequence from `a` to `b`
    pass `min_timescale=1 / a, max_timescale=b / a**2`.

    Args:
        count: Number of timescales, at least 0.
        min_timescale: See above; 1 gives the usual encoding.
        max_timescale: See above; with `min_timescale=1` the longest timescale, in positions (wavelength / 2 pi).
        endpoint: `numpy.geomspace`'s word. True ends at the largest timescale (tensor2tensor), False stops one step
            before (the Transformer paper).

    Returns:
        `(count,)`, float64, in positions.

    Raises:
        ValueError: If `count` is negative, or unless `0 < min_timescale <= max_timescale < infinity`.

    Source:
        tensor2tensor 1.15.7, layers/common_attention.py, `get_timing_signal_1d`.
    """
    check_range(min_timescale, max_timescale)
    if count < 0:
        raise ArgValueError("count", f"must be at least 0. Received: count={count!r}.")
    steps = max(count - 1, 1) if endpoint else max(count, 1)
    growth = np.log(max_timescale / min_timescale) / steps
    timescales: Float64Array = np.exp(np.arange(count, dtype=np.float64) * growth) / min_timescale
    return timescales


def resolve_timescales(
    channels: int,
    min_timescale: float = 1.0,
    max_timescale: float = 1.0e4,
    *,
    endpoint: bool = True,
    timescales: npt.ArrayLike | None = None,
) -> Float64Array:
    """Returns the timescales of `channels` columns, explicit ones checked against the width."""
    if timescales is None:
        return geometric_timescales(channels // 2, min_timescale, max_timescale, endpoint=endpoint)
    explicit = check_timescales(timescales, least=0)  # one channel has none
    if len(explicit) not in (channels // 2, (channels + 1) // 2):
        raise ArgValueError(
            "timescales",
            f"must have one value for two channels: {channels // 2} for {channels} channels. "
            f"Received: {len(explicit)} timescales.",
        )
    return explicit


def check_range(min_timescale: float, max_timescale: float) -> None:
    """Raises unless `0 < min_timescale <= max_timescale < infinity`."""
    check_number("min_timescale", min_timescale)
    check_number("max_timescale", max_timescale)
    if min_timescale > max_timescale:
        raise ArgValueError(
            "min_timescale",
            "must not be greater than `max_timescale`. "
            f"Received: min_timescale={min_timescale!r}, max_timescale={max_timescale!r}.",
        )


def check_number(name: str, value: float) -> float:
    """Returns a positive, finite number, or raises."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgTypeError(name, f"must be a number. Received: {name}={value!r}.")
    if not (np.isfinite(value) and value > 0):
        raise ArgValueError(name, f"must be positive and finite. Received: {name}={value!r}.")
    return value


def check_timescales(
    timescales: npt.ArrayLike | Sequence[float],
    name: str = "timescales",
    *,
    may_be_infinite: bool = False,
    least: int = 1,
) -> Float64Array:
    """Returns timescales, or factors of them, as a float64 vector, or raises unless all are positive and finite."""
    try:
        explicit = np.asarray(timescales)
    except ValueError:  # rows of unequal length
        explicit = np.asarray(None)
    if explicit.dtype.kind not in "iuf" or explicit.ndim != 1:
        raise ArgTypeError(name, f"must be a sequence of numbers. Received: {name}={timescales!r}.")
    if explicit.size < least:
        raise ArgValueError(name, f"must have at least {least} number. Received: {name}={timescales!r}.")
    explicit = explicit.astype(np.float64)
    if not ((explicit > 0) & (np.isfinite(explicit) | may_be_infinite)).all():
        rule = "positive" if may_be_infinite else "positive and finite"
        raise ArgValueError(name, f"must be {rule}. Received: {name}={timescales!r}.")
    return explicit


def timing_signal(
    positions: npt.ArrayLike,
    channels: int,
    min_timescale: float = 1.0,
    max_timescale: float = 1.0e4,
    *,
    layout: Layout = "concatenated",
    endpoint: bool = True,
    timescales: npt.ArrayLike | None = None,
) -> Float64Array:
    """Returns the exact sinusoidal position encoding of the given positions.

    The function computes `sin(position / timescale)` and `cos(position / timescale)` for each timescale in float64.
    Every other form of the encoding in this package is compared with this signal.

    Args:
        positions: Array of any shape, integer or float, finite.
        channels: Width of the signal, at least 1.
        min_timescale: See `geometric_timescales`.
        max_timescale: See `geometric_timescales`.
        layout: "concatenated" puts all sines before all cosines; "interleaved" alternates sine and cosine;
            "cosine_first" and "interleaved_cosine_first" do so with the cosines first.
        endpoint: See `geometric_timescales`.
        timescales: Explicit timescales in positions, used instead of the three arguments above. There are
            `channels // 2` of them. If `channels` is odd, there may be one more. The last column of the layout is then
            cut off, and no zero column is added.

    Returns:
        `(*positions.shape, channels)`, float64, values in [-1, 1]. An odd last column is zero.

    Raises:
        ValueError: If `channels < 1`, if a position is not finite, or if the timescales are not valid.
        TypeError: If an argument is of the wrong type.

    Source:
        tensor2tensor 1.15.7, layers/common_attention.py, `get_timing_signal_1d`.

    >>> timing_signal([0, 1], channels=5).round(3)
    array([[0.   , 0.   , 1.   , 1.   , 0.   ],
           [0.841, 0.   , 0.54 , 1.   , 0.   ]])
    """
    check_channels(channels)
    check_layout(layout)
    scales = resolve_timescales(channels, min_timescale, max_timescale, endpoint=endpoint, timescales=timescales)
    where = np.asarray(positions)
    if where.dtype.kind not in "iuf":
        raise ArgTypeError("positions", f"must be integers or floats. Received: an array of dtype {where.dtype}.")
    if not np.isfinite(where).all():
        raise ArgValueError("positions", "must be finite. Received: an array with NaN or infinity.")
    signal: Float64Array = assemble(*sines_and_cosines(where, scales), channels, layout)
    return signal


def sines_and_cosines(
    positions: npt.NDArray[Any], timescales: Float64Array, *, far: float = 2.0**24
) -> tuple[Float64Array, Float64Array]:
    """Returns the sines and the cosines of `position / timescale`, `(*positions.shape, timescales)` each.

    A quotient is off by up to 2**-53 of its size, which an angle of many turns feels: 1e-3 at 1.7e13. The remainder of
    the division is therefore divided in turn and added to the angle, until no quotient of more than `far` radians is
    left: one of 2**24 is off by 2e-9 or less.

    Raises:
        ValueError: If an angle is 2**960 radians or more.
    """
    dividends = positions.astype(np.float64)[..., np.newaxis]
    with np.errstate(over="ignore"):
        angles = dividends / timescales
    if not (np.abs(angles) < _LARGEST_ANGLE).all():
        shortest, farthest = np.abs(timescales).min(), np.abs(dividends).max()
        raise ArgValueError(
            "timescales",
            "must be so long that no angle, position / timescale, reaches 2**960 radians. "
            f"Received: a timescale of {shortest:.3g} and positions up to {farthest:.3g}.",
        )
    sin, cos = np.sin(angles), np.cos(angles)
    is_far = np.abs(angles) > far
    while is_far.any():
        with np.errstate(over="ignore", invalid="ignore"):  # at near angles a timescale may be any number
            dividends = np.where(is_far, _remainders(dividends, timescales, angles), 0.0)
            angles = np.where(is_far, dividends / timescales, 0.0)
        sin, cos = sin * np.cos(angles) + cos * np.sin(angles), cos * np.cos(angles) - sin * np.sin(angles)
        is_far = np.abs(angles) > far
    return sin, cos


_LARGEST_ANGLE = 2.0**960  # Dekker's product multiplies it by 2**27


def _remainders(dividends: Float64Array, divisors: Float64Array, quotients: Float64Array) -> Float64Array:
    """Returns `dividends - quotients * divisors` without rounding: Dekker's product, of halves of 26 bits."""
    (q_high, q_low), (d_high, d_low) = _halves(quotients), _halves(divisors)
    rest: Float64Array = dividends - q_high * d_high
    for product in (q_high * d_low, q_low * d_high, q_low * d_low):
        rest = rest - product
    return rest


def _halves(numbers: Float64Array) -> tuple[Float64Array, Float64Array]:
    shifted = numbers * (2.0**27 + 1.0)
    high = shifted - (shifted - numbers)
    return high, numbers - high
