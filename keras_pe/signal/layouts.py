"""The orders of sines and cosines in the columns of a signal."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError

Blocks = Literal["axis", "phase"]

Layout = Literal["concatenated", "interleaved", "cosine_first", "interleaved_cosine_first"]

RotaryLayout = Literal["halves", "interleaved", "interleaved_to_halves"]


def assemble(sin: Any, cos: Any, channels: int, layout: Layout, xp: ModuleType = np) -> Any:
    """Lays sines and cosines out as one signal of `channels` columns.

    Args:
        sin: `(..., timescales)`.
        cos: `(..., timescales)`.
        channels: Width of the result. Missing columns are zeros at the end, columns in excess are cut off.
        layout: "concatenated" or "interleaved"; with "cosine_first" or "interleaved_cosine_first" each cosine stands
            where its sine would, and the other way round.
        xp: The module that has `concatenate`, `stack`, `reshape`, `shape` and `pad`: NumPy or `keras.ops`.

    Returns:
        `(..., channels)`.
    """
    count = int(sin.shape[-1])
    if layout.endswith("cosine_first"):
        sin, cos = cos, sin
    if not layout.startswith("interleaved"):
        signal = xp.concatenate([sin, cos], axis=len(sin.shape) - 1)  # a number that no reader needs the rank for
    else:
        signal = xp.reshape(xp.stack([sin, cos], axis=-1), (*xp.shape(sin)[:-1], 2 * count))
    if channels < 2 * count:
        return signal[..., :channels]
    if channels > 2 * count:
        pad = [(0, 0)] * (len(signal.shape) - 1) + [(0, channels - 2 * count)]
        return xp.pad(signal, pad)
    return signal


def join_axes(signals: Sequence[Any], layout: Layout, blocks: Blocks, xp: ModuleType = np) -> Any:
    """Lays the signals of several axes out as one.

    Args:
        signals: One for each axis, of one shape `(..., columns)`.
        layout: Layout of each of them, as in `assemble`.
        blocks: "axis" puts the columns of an axis side by side; "phase" the sines of all axes before all cosines, or
            before the cosines of the same timescale where these alternate.
        xp: The module that has `concatenate`, `stack`, `reshape` and `shape`: NumPy or `keras.ops`.

    Returns:
        `(..., axes * columns)`.
    """
    if blocks == "phase" and layout.startswith("interleaved"):
        columns = int(signals[0].shape[-1]) * len(signals)
        return xp.reshape(xp.stack(signals, axis=-1), (*xp.shape(signals[0])[:-1], columns))
    if blocks == "phase":
        half = int(signals[0].shape[-1]) // 2
        signals = [*(each[..., :half] for each in signals), *(each[..., half:] for each in signals)]
    return xp.concatenate(signals, axis=-1)


def column_order(count: int, channels: int, layout: Layout) -> npt.NDArray[np.intp]:
    """Returns what each column holds, as an index into `[sines..., cosines..., zero]`.

    Args:
        count: Number of timescales: `channels // 2`, or one more where `channels` is odd and its last column cut off.
        channels: Width of the signal.
        layout: As in `assemble`.

    Returns:
        `(channels,)`: `i` for the sine of timescale `i`, `count + i` for its cosine, `2 * count` for the zero column.

    >>> column_order(2, 5, "interleaved").tolist()
    [0, 2, 1, 3, 4]
    """
    check_channels(channels)
    check_layout(layout)
    # `assemble` fills with zeros, so the labels count from 1 and the filling becomes the last index.
    labels = np.arange(1, 2 * count + 1)
    order = assemble(labels[:count], labels[count:], channels, layout)
    places: npt.NDArray[np.intp] = np.where(order == 0, 2 * count, order - 1)
    return places


def is_integer(value: Any) -> bool:
    """Whether `value` is a Python or NumPy integer; a bool is not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_channels(channels: int) -> None:
    """Raises unless `channels` is a whole number of at least 1."""
    if not is_integer(channels):
        raise ArgTypeError("channels", f"must be an integer. Received: channels={channels!r}.")
    if channels < 1:
        raise ArgValueError("channels", f"must be at least 1. Received: channels={channels!r}.")


def check_layout(layout: str) -> None:
    """Raises unless `layout` is a known layout."""
    if layout not in get_args(Layout):
        raise ArgValueError("layout", f"must be one of {', '.join(map(repr, get_args(Layout)))}. Received: {layout=}.")
