"""Turns pairs of channels by angles whose sines and cosines are given: what a rotary encoding does."""

from typing import Any

from keras import ops

from keras_pe.signal.layouts import RotaryLayout


def turn_pairs(x: Any, sin: Any, cos: Any, layout: RotaryLayout) -> Any:
    """Returns `x` with its first channels turned: `x * cos + turned_by_a_quarter(x) * sin`.

    Args:
        x: `(..., channels)`.
        sin: `(..., pairs)`, or what broadcasts to it, with at most `channels // 2` pairs. Further channels stay.
        cos: As `sin`.
        layout: Which channels are a pair, as in `RotaryPositionEncoding`.
    """
    pairs, last = sin.shape[-1], len(x.shape) - 1
    width, channels = 2 * pairs, x.shape[-1]
    if layout == "halves" and width == channels:
        first, second = ops.split(x, 2, axis=last)
    elif layout == "halves":
        first, second = x[..., :pairs], x[..., pairs:width]
    else:
        first, second = x[..., 0:width:2], x[..., 1:width:2]
    turned = [first * cos - second * sin, second * cos + first * sin]
    if layout == "interleaved":
        turned = [ops.reshape(ops.stack(turned, axis=-1), (*ops.shape(x)[:-1], width))]
    if width < channels:
        turned.append(x[..., width:])
    return turned[0] if len(turned) == 1 else ops.concatenate(turned, axis=last)
