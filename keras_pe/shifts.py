"""The matrix that shifts all positions of a signal by one offset."""

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.signal.formula import Float64Array, resolve_timescales
from keras_pe.signal.layouts import Layout, check_channels, column_order


def shift_matrix(
    offset: float,
    channels: int,
    min_timescale: float = 1.0,
    max_timescale: float = 1.0e4,
    *,
    layout: Layout = "concatenated",
    endpoint: bool = True,
    timescales: npt.ArrayLike | None = None,
) -> Float64Array:
    """Returns the `T` with `timing_signal(t + offset) == timing_signal(t) @ T` for every position `t`.

    The sine and cosine of each timescale are rotated by the angle `offset / timescale`, at every position (addition
    theorem). The matrix is orthogonal, and `shift_matrix(a) @ shift_matrix(b)` is `shift_matrix(a + b)`.

    Args:
        offset: The shift in positions: a positive or negative number, integer or fractional.
        channels: Width of the signal, at least 1.
        min_timescale: See `keras_pe.timing_signal`, as for the arguments that follow.
        max_timescale: See there.
        layout: See there.
        endpoint: See there.
        timescales: See there.

    Returns:
        `(channels, channels)`, float64. The zero column of an odd width is unchanged.

    Raises:
        ValueError: If an argument is not valid, or if the last column is a sine without its cosine. Its shift is not a
            linear function of the other columns.

    >>> from keras_pe import timing_signal
    >>> signal = timing_signal([3, 10], channels=6)
    >>> bool(np.allclose(signal[0] @ shift_matrix(7, 6), signal[1], rtol=0, atol=1e-12))
    True
    """
    check_channels(channels)
    if isinstance(offset, bool) or not isinstance(offset, int | float | np.integer | np.floating):
        raise ArgTypeError("offset", f"must be a number. Received: offset={offset!r}.")
    if not np.isfinite(offset):
        raise ArgValueError("offset", f"must be finite. Received: offset={offset!r}.")
    scales = resolve_timescales(channels, min_timescale, max_timescale, endpoint=endpoint, timescales=timescales)
    count = len(scales)
    if 2 * count > channels:
        raise ArgValueError(
            "timescales",
            f"must have {channels // 2} values for a shift of {channels} channels. Received: {count} "
            "timescales. The last column would be a sine without its cosine, which no matrix can shift. Leave out the "
            "last timescale, or use an even width.",
        )
    angles = float(offset) / scales
    sin, cos = np.diag(np.sin(angles)), np.diag(np.cos(angles))
    turn = np.eye(2 * count + 1)  # the last row and column are the zero column's, where there is one
    turn[:-1, :-1] = np.block([[cos, -sin], [sin, cos]])
    order = column_order(count, channels, layout)
    return turn[np.ix_(order, order)]
