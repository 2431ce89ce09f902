"""Refuses positions that can be seen to lie out of reach, by layer, position and reach."""

from typing import Any

import numpy as np

from keras_pe.rotations.concrete import visible
from keras_pe.rotations.digits import LIMIT


def check_far(argument: Any, name: str) -> None:
    """Raises where an array, or one of a list, holds an integer that Keras would wrap when it makes int32 of it."""
    for values in argument if isinstance(argument, (list, tuple)) else [argument]:
        if isinstance(values, (np.ndarray, np.integer)) and values.dtype.kind in "iu" and values.itemsize > 4:
            far = np.extract(np.abs(values.astype(np.float64)) >= 2.0**31, values)
            if far.size:
                raise ValueError(_out_of_reach(f"position {int(far[0]):,}", -LIMIT, LIMIT, name))


def check_values_reach(values: Any, start: Any, low: int, high: int, name: str) -> None:
    """Raises where positions that can be seen, `start` added, leave `low` to `high - 1`."""
    first = visible(0 if start is None else start)
    if isinstance(values, dict):
        parts = visible(values["nearest"]), visible(values["fraction"])
        seen = None if parts[0] is None or parts[1] is None else parts[0] + parts[1].astype(np.float64)
    else:
        seen = visible(values)
    if seen is None or first is None or not seen.size or not first.size:
        return
    seen = seen.astype(np.float64) + first.astype(np.float64)[..., np.newaxis] if first.ndim else seen + float(first)
    if not (seen.min() >= low and seen.max() < high):  # nor where one is NaN
        index = tuple(int(each) for each in np.argwhere(~((seen >= low) & (seen < high)))[0])
        place = f" at index {list(index)}" if index else ""
        raise ValueError(_out_of_reach(f"position {seen[index]:,.15g}{place}", low, high, name))


def check_range_reach(start: Any, length: int | None, low: int, high: int, name: str) -> None:
    """Raises where `length` positions from `start` on are known to leave `low` to `high - 1`."""
    first = visible(start)
    if first is None or not first.size:
        return
    lowest, highest = (int(first.min()), int(first.max())) if first.ndim else (int(first), int(first))
    if lowest < low or highest + (length or 0) > high:
        worst = lowest if lowest < low else highest
        said = "" if length is None else f"{length:,} positions "
        raise ValueError(_out_of_reach(f"{said}from {worst:,} on", low, high, name))


def _out_of_reach(received: str, low: int, high: int, name: str) -> str:
    way_out = "" if high == LIMIT else " `max_length` is what bounds them."
    if low < 0 and high != LIMIT:
        way_out = " They are counted from `start_index`."
    return f"Positions must be from {low:,} to {high - 1:,} in layer '{name}'. Received: {received}.{way_out}"
