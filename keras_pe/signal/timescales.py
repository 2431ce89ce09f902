"""The timescales: tensor2tensor's geometric sequence, or explicit ones."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]


def geometric_timescales(
    count: int, min_timescale: float = 1.0, max_timescale: float = 1.0e4, *, endpoint: bool = True
) -> Float64Array:
    """Returns tensor2tensor's geometric sequence of timescales.

    `timescale[i] = (max_timescale / min_timescale) ** (i / steps) / min_timescale`, where `steps` is `count - 1` with
    `endpoint` and `count` without. tensor2tensor's documentation says that the sequence runs from `min_timescale` to
    `max_timescale`; its code multiplies by `min_timescale` where that would need a division, so it runs from
    `1 / min_timescale` to `max_timescale / min_timescale**2`. This function does what the code does. For a sequence
    from `a` to `b` pass `min_timescale=1 / a, max_timescale=b / a**2`.

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
        raise ValueError(f"`count` must be at least 0. Received: count={count!r}.")
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
    explicit = check_timescales(timescales)
    if len(explicit) not in (channels // 2, (channels + 1) // 2):
        raise ValueError(
            f"`timescales` must have one value for two channels: {channels // 2} for {channels} channels. "
            f"Received: {len(explicit)} timescales."
        )
    return explicit


def check_range(min_timescale: float, max_timescale: float) -> None:
    """Raises unless `0 < min_timescale <= max_timescale < infinity`."""
    check_number("min_timescale", min_timescale)
    check_number("max_timescale", max_timescale)
    if min_timescale > max_timescale:
        raise ValueError(
            "`min_timescale` must not be greater than `max_timescale`. "
            f"Received: min_timescale={min_timescale!r}, max_timescale={max_timescale!r}."
        )


def check_number(name: str, value: float) -> float:
    """Returns a positive, finite number, or raises."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}.")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` must be positive and finite. Received: {name}={value!r}.")
    return value


def check_timescales(timescales: npt.ArrayLike | Sequence[float], name: str = "timescales") -> Float64Array:
    """Returns timescales, or factors of them, as a float64 vector, or raises unless they are positive and finite."""
    try:
        explicit = np.asarray(timescales)
    except ValueError:  # rows of unequal length
        explicit = np.asarray(None)
    if explicit.dtype.kind not in "iuf" or explicit.ndim != 1:
        raise TypeError(f"`{name}` must be a sequence of numbers. Received: {name}={timescales!r}.")
    explicit = explicit.astype(np.float64)
    if not (np.isfinite(explicit) & (explicit > 0)).all():
        raise ValueError(f"`{name}` must be positive and finite. Received: {name}={timescales!r}.")
    return explicit
