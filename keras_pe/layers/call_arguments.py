"""Checks the call arguments that the position layers share: positions, start and length."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axis_positions import Positions, join_parts
from keras_pe.rotations.composed import LIMIT
from keras_pe.rotations.static_values import is_eager, visible
from keras_pe.signal.layouts import is_integer

Shape = tuple[int | None, ...]


def per_axis(value: Any, axes: int, name: str) -> list[Any]:
    """Returns one value for each axis: the given ones, or the only one repeated."""
    if not isinstance(value, (list, tuple)):
        return [value] * axes
    if len(value) != axes:
        raise ArgValueError(
            name, f"must have one value for each of the {axes} positional axes. Received: {len(value)} values."
        )
    return list(value)


def count_axes(inputs_shape: Any, positions: Any) -> int:
    """Returns how many: one for each dimension of a grid; on a sequence, a list of positions gives each token several.

    Args:
        inputs_shape: Shape of the inputs.
        positions: None, positions or a list of them, or their shape or a list of shapes.
    """
    if len(inputs_shape) > 3:
        return len(inputs_shape) - 2
    listed = isinstance(positions, (list, tuple)) and not all(each is None or is_integer(each) for each in positions)
    return len(positions) if listed else 1


def by_name(names: Sequence[str], others: Sequence[Any], named: dict[str, Any], layer: str) -> dict[str, Any]:
    """Returns all arguments of a call by name, or raises TypeError, as Python does, if one is given twice.

    Args:
        names: The arguments after the first one, in their order.
        others: The values that are given by place, after the first one.
        named: The values that are given by name.
        layer: Name of the layer, for the errors.
    """
    if len(others) > len(names):
        raise TypeError(
            f"Layer '{layer}' takes at most {len(names) + 1} positional arguments: the first, then {', '.join(names)}. "
            f"Received: {len(others) + 1}."
        )
    by_place = dict(zip(names, others, strict=False))
    for name in by_place:
        if name in named:
            raise ArgTypeError(
                name,
                f"must be passed once to layer '{layer}'. Received: multiple values for argument '{name}'.",
            )
    return {**by_place, **named}


def check_inputs_dtype(dtype: Any, name: str = "inputs") -> None:
    """Raises where what a layer computes with is complex: its imaginary part would be lost."""
    if keras.backend.standardize_dtype(dtype).startswith("complex"):
        raise ArgTypeError(name, f"must be real numbers. Received: {name}.dtype={dtype}.")


def check_inputs_shape(inputs_shape: Shape) -> None:
    """Raises unless the inputs are `(batch, length, ..., channels)` with known channels."""
    if len(inputs_shape) < 3:
        raise ArgValueError(
            "inputs",
            "must have shape (batch, length, channels) or (batch, d1, ..., dn, channels). "
            f"Received: inputs.shape={tuple(inputs_shape)}.",
        )
    if not inputs_shape[-1]:
        raise ArgValueError(
            "inputs",
            "must have a known, positive number of channels, its last dimension. "
            f"Received: inputs.shape={tuple(inputs_shape)}.",
        )


def check_positions_dtype(name: str, dtype: Any) -> None:
    """Raises unless positions, or times, are real numbers and no truth values."""
    dtype = keras.backend.standardize_dtype(dtype)
    if not dtype.startswith(("int", "uint", "float", "bfloat")):
        raise ArgTypeError(name, f"must be integers or floats. Received: a tensor of dtype {dtype}.")


def check_integers(positions: Any, layer: str) -> None:
    """Raises TypeError where positions are floats in a layer that has a number for each whole position alone."""
    if isinstance(positions, Positions) or "float" in keras.backend.standardize_dtype(
        getattr(positions, "dtype", "int32")
    ):
        raise ArgTypeError("positions", f"must be integers in layer '{layer}'. Received: floats.")


def check_positions(positions: Any, batch: int | None, length: int | None) -> None:
    """Raises unless positions are a number tensor of shape `(length,)`, `(1, length)` or `(batch, length)`."""
    if isinstance(positions, Positions):
        positions = positions.nearest
    if not hasattr(positions, "shape") or not hasattr(positions, "dtype"):
        raise ArgTypeError(
            "positions",
            "must be an array or a tensor, or a list of one per positional axis. "
            f"Received: positions={positions!r}. numpy.asarray() makes an array of a list of numbers.",
        )
    check_positions_dtype("positions", positions.dtype)
    shape = tuple(positions.shape)
    examples = shape[0] if len(shape) == 2 else 1
    if len(shape) not in (1, 2) or examples not in (None, 1, batch or examples) or _differ(shape[-1], length):
        raise ArgValueError(
            "positions",
            f"must have shape (length,) or (batch, length), here {(length,)} or {(batch, length)}. "
            f"Received: positions.shape={shape}.",
        )


def _differ(one: int | None, other: int | None) -> bool:
    """Whether two sizes are known to differ."""
    return None not in (one, other) and one != other


def check_start(start: Any, batch: int | None) -> None:
    """Raises unless a start given at run time is an integer scalar, or one integer per example."""
    if is_integer(start):
        return
    if not hasattr(start, "shape") or not hasattr(start, "dtype"):
        raise ArgTypeError(
            "start_index",
            "must be an integer, an integer tensor of shape () or (batch,), or a list of one per axis. "
            f"Received: start_index={start!r}.",
        )
    dtype = keras.backend.standardize_dtype(start.dtype)
    if not dtype.startswith(("int", "uint")):
        raise ArgTypeError("start_index", f"must be an integer tensor. Received: a tensor of dtype {dtype}.")
    shape = tuple(start.shape)
    if len(shape) > 1 or (shape and _differ(shape[0], batch)):
        raise ArgValueError("start_index", f"must have shape () or (batch,). Received: start_index.shape={shape}.")


def check_before_conversion(inputs: Any, positions: Any, start_index: Any, name: str) -> None:
    """Raises where Keras would convert arguments into something else than was meant."""
    if hasattr(inputs, "ragged_rank") and not isinstance(inputs, keras.KerasTensor):
        raise ArgTypeError(
            "inputs",
            f"must be a dense tensor in layer '{name}'. Received: a {type(inputs).__name__}. "
            "inputs.to_tensor() pads it, and keras_pe.positions_from_mask numbers what is not padding.",
        )
    if isinstance(positions, (list, tuple)) and any(isinstance(each, (int, float, np.number)) for each in positions):
        raise ArgTypeError(
            "positions",
            f"must be an array or a tensor in layer '{name}', or a list of one per positional axis. "
            f"Received: a list of {len(positions)} numbers. numpy.asarray(positions) makes an array of it.",
        )
    listed = positions if isinstance(positions, (list, tuple)) else []
    missing = [axis for axis, each in enumerate(listed) if each is None]
    if missing and not _takes_none_in_lists():
        raise ArgValueError(
            "positions",
            f"must be given for every axis in layer '{name}' with Keras {keras.version()}. "
            f"Received: None for axis {missing[0]}. Keras 3.13 takes it.",
        )
    _check_far(positions, name)
    _check_far(start_index, name)


def _takes_none_in_lists() -> bool:
    """Whether Keras lets `None` stand in a list of tensors that a layer is called with."""
    major, minor = map(int, keras.version().split(".")[:2])
    return (major, minor) >= (3, 13)


def _check_far(argument: Any, name: str) -> None:
    """Raises if an array, or one of a list, holds an integer that Keras would wrap in its cast to int32."""
    for values in argument if isinstance(argument, (list, tuple)) else [argument]:
        if isinstance(values, (np.ndarray, np.integer)) and values.dtype.kind in "iu" and values.itemsize > 4:
            far = np.extract(np.abs(values.astype(np.float64)) >= 2.0**31, values)
            if far.size:
                raise ValueError(_out_of_reach(f"position {int(far[0]):,}", -LIMIT, LIMIT, name))


def check_values_reach(values: Any, start: Any, low: int, high: int, name: str) -> None:
    """Raises where positions that can be seen, `start` added, leave `low` to `high - 1`."""
    first = visible(0 if start is None else start)
    seen = join_parts(values) if isinstance(values, Positions) else visible(values)
    if seen is None or first is None or not seen.size or not first.size:
        return
    is_float = seen.dtype.kind not in "iu"
    seen = seen.astype(np.float64)
    # Floats become int32 before a start is added.
    inside = np.abs(seen) < 2.0**31 if is_float else np.bool_(True)
    seen = seen + first.astype(np.float64)[..., np.newaxis] if first.ndim else seen + float(first)
    inside = inside & (seen >= low) & (seen < high)  # False where one is NaN
    if not inside.all():
        index = tuple(int(each) for each in np.argwhere(~inside)[0])
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
        count = "" if length is None else f"{length:,} positions "
        raise ValueError(_out_of_reach(f"{count}from {worst:,} on", low, high, name))


def _out_of_reach(received: str, low: int, high: int, name: str) -> str:
    way_out = " `max_length` sets this range."
    if low < 0:
        way_out = " A position out of reach, such as a Unix time, needs another origin or unit: `start_index=-first`."
    if high - low == 2 * LIMIT and high != LIMIT:
        way_out = " Positions are counted from `start_index`."
    return f"Positions must be from {low:,} to {high - 1:,} in layer '{name}'. Received: {received}.{way_out}"


def read_variables(values: Any) -> Any:
    """Returns what variables hold when the layer runs, or of a list of such; all others as they are."""
    if isinstance(values, (list, tuple)):
        return [read_variables(each) for each in values]
    return ops.copy(ops.convert_to_tensor(values)) if hasattr(values, "assign") else values


def read_start(start: Any) -> Any:
    """Returns a start, or one of each axis, that is one number and can be seen as an int: it is read once, here."""
    if isinstance(start, (list, tuple)):
        return [read_start(each) for each in start]
    start = read_variables(start)
    if is_integer(start) or not hasattr(start, "shape") or len(start.shape) or not is_eager():
        return start
    seen = visible(start)
    return start if seen is None or seen.dtype.kind not in "iu" else int(seen)
