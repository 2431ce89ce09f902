"""Turns pairs of channels by angles whose sines and cosines are given: what a rotary encoding does."""

from types import ModuleType
from typing import Any

import numpy as np
from keras import ops

from keras_pe.signal.layouts import RotaryLayout, assemble


def of_channels(of_first: Any, of_second: Any, layout: RotaryLayout, xp: ModuleType = np) -> Any:
    """Returns what belongs to the first and to the second channel of each pair as the turned channels stand.

    Args:
        of_first: `(..., pairs)`.
        of_second: As `of_first`.
        layout: Which channels are a pair, as in `RotaryPositionEncoding`.
        xp: NumPy, or `keras.ops`.

    Returns:
        `(..., 2 * pairs)`.
    """
    neighbors = layout == "interleaved"
    return assemble(of_first, of_second, 2 * of_first.shape[-1], "interleaved" if neighbors else "concatenated", xp=xp)


def turn_pairs(x: Any, sin: Any, cos: Any, layout: RotaryLayout) -> Any:
    """Returns `x` with its first channels turned: `x * cos + partners(x) * sin`.

    A turn of `first * cos - second * sin` and `second * cos + first * sin` is one of whole rows, which runtimes compute
    faster than halves of them, where the sines of the first channels are negative.

    Args:
        x: `(..., channels)`.
        sin: `(..., width)`, or what broadcasts to it: the sine of each turned channel, negative in the first of a pair,
            `of_channels(-sin, sin, layout)`. Channels beyond the width stay.
        cos: As `sin`, all as they are.
        layout: Which channels are a pair, as in `RotaryPositionEncoding`.
    """
    width, channels, last = sin.shape[-1], x.shape[-1], len(x.shape) - 1
    turned = x[..., :width] if width < channels else x
    if layout == "halves":
        first, second = ops.split(turned, 2, axis=last)
    else:
        first, second = turned[..., 0::2], turned[..., 1::2]
    if layout == "interleaved_to_halves":
        turned = of_channels(first, second, layout, ops)
    turned = turned * cos + of_channels(second, first, layout, ops) * sin
    return turned if width == channels else ops.concatenate([turned, x[..., width:]], axis=last)
