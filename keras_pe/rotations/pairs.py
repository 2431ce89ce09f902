"""Rotates pairs of channels by given sines and cosines, as a rotary encoding does."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from keras import ops

from keras_pe.rotations.static_values import align_dtypes, compiled_by_xla, is_eager
from keras_pe.signal.layouts import RotaryLayout, assemble


def interleave_columns(of_first: Any, of_second: Any, layout: RotaryLayout, xp: ModuleType = np) -> Any:
    """Returns what belongs to the first and to the second channel of each pair as the turned channels stand.

    Args:
        of_first: `(..., pairs)`.
        of_second: As `of_first`.
        layout: Layout of the pairs, as in `RotaryPositionEncoding`.
        xp: NumPy, or `keras.ops`.

    Returns:
        `(..., 2 * pairs)`.
    """
    if layout != "interleaved" and xp is ops and compiled_by_xla():
        # Concatenating along the last axis takes XLA twice as long for 128 channels as this equal form.
        stacked = ops.stack([of_first, of_second], axis=-2)
        return ops.reshape(stacked, (*ops.shape(of_first)[:-1], 2 * of_first.shape[-1]))
    neighbors = layout == "interleaved"
    return assemble(of_first, of_second, 2 * of_first.shape[-1], "interleaved" if neighbors else "concatenated", xp=xp)


def turn_blocks(x: Any, sin: Any, cos: Any, layout: RotaryLayout, blocks: Sequence[int]) -> Any:
    """Returns `x` with the first channels of each block turned, as `turn_pairs` does for one block.

    Args:
        x: `(..., channels)`.
        sin: `(..., width)`, as the channels of the blocks stand.
        cos: As `sin`.
        layout: Layout of the pairs in a block.
        blocks: Number of pairs of each block; the blocks stand side by side.
    """
    if len(blocks) == 1:
        return turn_pairs(x, sin, cos, layout)
    parts, begin = [], 0
    for pairs in blocks:
        end = begin + 2 * pairs
        parts.append(turn_pairs(x[..., begin:end], sin[..., begin:end], cos[..., begin:end], layout))
        begin = end
    if begin < x.shape[-1]:
        parts.append(x[..., begin:])
    return ops.concatenate(parts, axis=len(x.shape) - 1)


def turn_pairs(x: Any, sin: Any, cos: Any, layout: RotaryLayout) -> Any:
    """Returns `x` with its first channels turned: `x * cos + partners(x) * sin`.

    The sines of the first channels are negative. So `first * cos - second * sin` and `second * cos + first * sin` are
    one formula for whole rows, which runtimes compute faster than halves of rows.

    Args:
        x: `(..., channels)`.
        sin: `(..., width)`, or what broadcasts to it: the sine of each turned channel, negative in the first of a pair,
            `of_channels(-sin, sin, layout)`. Channels beyond the width stay.
        cos: As `sin`, all as they are.
        layout: Layout of the pairs, as in `RotaryPositionEncoding`.
    """
    width, channels, last = sin.shape[-1], x.shape[-1], len(x.shape) - 1
    turned = x[..., :width] if width < channels else x
    if layout == "halves" and is_eager():
        partners = ops.roll(turned, width // 2, axis=last)  # fastest there; compilers and LiteRT do badly with it
    else:
        in_halves = layout == "halves"
        first, second = ops.split(turned, 2, axis=last) if in_halves else (turned[..., 0::2], turned[..., 1::2])
        partners = interleave_columns(second, first, layout, ops)
        if layout == "interleaved_to_halves":
            turned = interleave_columns(first, second, layout, ops)
    turned, partners, sin, cos = align_dtypes(turned, partners, sin, cos)
    turned = turned * cos + partners * sin
    return turned if width == channels else ops.concatenate([turned, x[..., width:]], axis=last)
