"""The sequences of timescales in circulation, each as the layer's arguments for `(channels, max_timescale)`."""

import math
from typing import Any

import numpy as np

from keras_pe.signal.formula import Float64Array


def last_is_longest(channels: int, longest: float) -> dict[str, Any]:
    """A geometric sequence whose last timescale is the longest: tensor2tensor's."""
    return {"max_timescale": longest, "endpoint": True}


def paper(channels: int, longest: float) -> dict[str, Any]:
    """The Transformer paper's, which stops one step before the longest."""
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    # The last column is the sine of one more timescale, its cosine cut off.
    return {"timescales": _powers(longest, 2 * np.arange((channels + 1) // 2) / channels)}


def paper_of_pairs(channels: int, longest: float) -> dict[str, Any]:
    """The paper's of the pairs that an odd width has; its last column is zero."""
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    return {"timescales": _powers(longest, np.arange(channels // 2) / (channels // 2))}


def paper_of_next_even_width(channels: int, longest: float) -> dict[str, Any]:
    """The paper's, an odd width rounded up."""
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    return {"timescales": _powers(longest, 2 * np.arange((channels + 1) // 2) / (channels + 1))}


def one_based(channels: int, longest: float) -> dict[str, Any]:
    """The paper's formula with its index counted from 1."""
    return {"timescales": _powers(longest, 2 * np.arange(1, channels // 2 + 1) / channels)}


def multiples_of_pi(channels: int, longest: float) -> dict[str, Any]:
    """Rates that are multiples of pi, weakened as the paper's."""
    # k counts from 1: with k = 0 the rate is zero and the timescale infinite, two columns that never change.
    k = np.arange(1, channels // 2 + 1)
    scales = np.asarray(_powers(longest, 2 * k / channels)) / (k * math.pi)
    return {"timescales": tuple(scales.tolist())}


def paper_of_fractions(channels: int, longest: float) -> dict[str, Any]:
    """The paper's, for positions from 0 to 1 that count as thousandths."""
    return {"timescales": _powers(longest, 2 * np.arange(channels // 2) / channels, 1e-3)}


def turns_up_to(channels: int, most: float) -> dict[str, Any]:
    """From 1 to `most` whole turns within 1, geometrically: rates that grow."""
    steps = max(channels // 2 - 1, 1)
    return {"timescales": _powers(most, -np.arange(channels // 2) / steps, 1 / (2 * math.pi))}


def growing(channels: int, fastest: float) -> dict[str, Any]:
    """Rates that grow from 1 towards `fastest`, which would be the next."""
    count = channels // 2
    return {"timescales": _powers(fastest, -np.arange(count, dtype=np.float64) / count)}


def doublings(channels: int, longest: float) -> dict[str, Any]:
    """Rates 1, 2, 4, ... radians: `longest` has no part in them."""
    return {"timescales": _powers(2.0, -np.arange(channels // 2, dtype=np.float64))}


def multiples_up_to_half(channels: int, resolution: float) -> dict[str, Any]:
    """From 1 to half of `resolution` half turns within 1, in equal steps."""
    return {"timescales": tuple((1 / (np.pi * np.linspace(1, resolution / 2, channels // 2))).tolist())}


def half_turns_up_to_half(channels: int, resolution: float) -> dict[str, Any]:
    """From 1 to half of `resolution` half turns within 1, geometrically."""
    steps = max(channels // 2 - 1, 1)
    return {"timescales": _powers(resolution / 2, -np.arange(channels // 2) / steps, 1 / math.pi)}


def _powers(base: float, exponents: Float64Array, factor: float = 1.0) -> tuple[float, ...]:
    return tuple((factor * base**exponents).tolist())
