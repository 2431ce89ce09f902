"""The one formula: the exact signal of given positions, in float64 NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.signal.layouts import Layout, assemble, check_channels, check_layout
from keras_pe.signal.timescales import Float64Array, resolve_timescales


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

    `sin(position / timescale)` and `cos(position / timescale)` for each timescale, computed in float64. It is what
    every other form of the encoding in this package is measured against.

    Args:
        positions: Array of any shape, integer or float, finite.
        channels: Width of the signal, at least 1.
        min_timescale: See `geometric_timescales`.
        max_timescale: See `geometric_timescales`.
        layout: "concatenated" puts all sines before all cosines; "interleaved" alternates sine and cosine;
            "cosine_first" and "interleaved_cosine_first" do so with the cosines first.
        endpoint: See `geometric_timescales`.
        timescales: Explicit timescales in positions, used instead of the three arguments above. There are
            `channels // 2` of them, or one more where `channels` is odd: then the last column of the layout is cut
            off, instead of a zero column being added.

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
        raise TypeError(f"`positions` must be integers or floats. Received: an array of dtype {where.dtype}.")
    if not np.isfinite(where).all():
        raise ValueError("`positions` must be finite. Received: an array with NaN or infinity.")
    signal: Float64Array = assemble(*sines_and_cosines(where, scales), channels, layout)
    return signal


def sines_and_cosines(positions: npt.NDArray[Any], timescales: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Returns the sines and the cosines of `position / timescale`, `(*positions.shape, timescales)` each.

    A quotient is off by up to 2**-53 of its size, which an angle of many turns feels: 1e-3 at 1.7e13. What the division
    left is therefore added to the angle, where that is more than 2**24 radians and could be off by 2e-9 or more.
    """
    dividends = positions.astype(np.float64)[..., np.newaxis]
    angles = dividends / timescales
    sin, cos = np.sin(angles), np.cos(angles)
    is_far = np.abs(angles) > 2.0**24
    if not is_far.any():
        return sin, cos
    with np.errstate(over="ignore", invalid="ignore"):  # where the angle is not far, a timescale may be any number
        left = np.where(is_far, _remainders(dividends, timescales, angles) / timescales, 0.0)
    return sin * np.cos(left) + cos * np.sin(left), cos * np.cos(left) - sin * np.sin(left)


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
