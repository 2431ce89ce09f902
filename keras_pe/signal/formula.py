"""The one formula: the exact signal of given positions, in float64 NumPy."""

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
        layout: "concatenated" puts all sines before all cosines; "interleaved" alternates sine and cosine.
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
    angles = where.astype(np.float64)[..., np.newaxis] / scales
    signal: Float64Array = assemble(np.sin(angles), np.cos(angles), channels, layout)
    return signal
