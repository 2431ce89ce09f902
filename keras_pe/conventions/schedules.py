"""The known sequences of timescales, each as the layer's arguments for `(channels, max_timescale)`."""

import math
from typing import Any

import numpy as np

from keras_pe.signal.formula import Float64Array


def last_is_longest(channels: int, longest: float) -> dict[str, Any]:
    """Returns tensor2tensor's geometric sequence, whose last timescale is the longest."""
    return {"max_timescale": longest, "endpoint": True}


def paper(channels: int, longest: float) -> dict[str, Any]:
    """Returns the sequence of the Transformer paper, which stops one step before the longest."""
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    # The last column of an odd width is the sine of one more timescale, without a cosine.
    return {"timescales": _powers(longest, 2 * np.arange((channels + 1) // 2) / channels)}


def paper_of_pairs(channels: int, longest: float) -> dict[str, Any]:
    """Returns the paper's sequence for the pairs of an odd width, whose last column is zero."""
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    return {"timescales": _powers(longest, np.arange(channels // 2) / (channels // 2))}


def paper_of_next_even_width(channels: int, longest: float) -> dict[str, Any]:
    """Returns the paper's sequence for the next even width."""
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    return {"timescales": _powers(longest, 2 * np.arange((channels + 1) // 2) / (channels + 1))}


def one_based(channels: int, longest: float) -> dict[str, Any]:
    """Returns the sequence of the paper's formula with its index counted from 1."""
    return {"timescales": _powers(longest, 2 * np.arange(1, channels // 2 + 1) / channels)}


def multiples_of_pi(channels: int, longest: float) -> dict[str, Any]:
    """Returns rates that are multiples of pi, divided by the paper's timescales."""
    # k counts from 1. With k = 0 the rate would be zero and the timescale infinite, for two constant columns.
    k = np.arange(1, channels // 2 + 1)
    scales = np.asarray(_powers(longest, 2 * k / channels)) / (k * math.pi)
    return {"timescales": tuple(scales.tolist())}


def paper_of_fractions(channels: int, longest: float) -> dict[str, Any]:
    """Returns the paper's sequence for positions from 0 to 1, which count as thousandths."""
    return {"timescales": _powers(longest, 2 * np.arange(channels // 2) / channels, 1e-3)}


def turns_up_to(channels: int, most: float) -> dict[str, Any]:
    """Returns a geometric sequence of rates, from 1 to `most` whole turns within 1."""
    steps = max(channels // 2 - 1, 1)
    return {"timescales": _powers(most, -np.arange(channels // 2) / steps, 1 / (2 * math.pi))}


def growing(channels: int, fastest: float) -> dict[str, Any]:
    """Returns rates that grow from 1 to just below `fastest`, which would be the next rate."""
    count = channels // 2
    return {"timescales": _powers(fastest, -np.arange(count, dtype=np.float64) / count)}


def doublings(channels: int, longest: float) -> dict[str, Any]:
    """Returns the rates 1, 2, 4, ... radians; ignores `longest`."""
    return {"timescales": _powers(2.0, -np.arange(channels // 2, dtype=np.float64))}


def multiples_up_to_half(channels: int, resolution: float) -> dict[str, Any]:
    """Returns rates from 1 to half of `resolution` half turns within 1, in equal steps."""
    return {"timescales": tuple((1 / (np.pi * np.linspace(1, resolution / 2, channels // 2))).tolist())}


def half_turns_up_to_half(channels: int, resolution: float) -> dict[str, Any]:
    """Returns a geometric sequence of rates, from 1 to half of `resolution` half turns within 1."""
    steps = max(channels // 2 - 1, 1)
    return {"timescales": _powers(resolution / 2, -np.arange(channels // 2) / steps, 1 / math.pi)}


def _powers(base: float, exponents: Float64Array, factor: float = 1.0) -> tuple[float, ...]:
    return tuple((factor * base**exponents).tolist())
