"""The positions that a call of this package's layers uses."""

import inspect
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.layer_call import LayerFault, arguments_of, as_array
from keras_pe.signal.formula import Float64Array


def positions_given(fault: LayerFault) -> list[Float64Array]:
    """Returns the positions of each axis in a call of this package's layer, `(batch or 1, length)`."""
    from keras_pe.layers.axis_positions import resolve_positions
    from keras_pe.layers.call_arguments import per_axis  # Keras is imported with it

    arguments, layer = arguments_of(fault), fault.call.layer
    if "timesteps" in arguments:
        return [_plain(arguments["timesteps"]).reshape(1, -1)]
    first = next(iter(arguments.values()))
    if "key_positions" in inspect.signature(layer.call).parameters:  # relative positions: integers, or a range
        listed, start = (arguments.get(name) for name in ("positions", "start_index"))
        positions = np.arange(first.shape[1], dtype=np.float64) if listed is None else _plain(listed)
        return [np.atleast_2d(positions if start is None else positions + _plain(start).reshape(-1, 1))]
    lengths = _lengths(layer, tuple(first.shape))
    listed, starts = (per_axis(arguments.get(name), len(lengths), name) for name in ("positions", "start_index"))
    return [
        np.atleast_2d(_count_positions(length, resolve_positions(values, start, length)))
        for values, start, length in zip(listed, starts, lengths, strict=True)
    ]


def axes_of(layer: Any) -> int:
    """Returns the number of position axes of a built layer."""
    return max(int((layer.get_build_config() or {}).get("axes", 1)), 1)


def _lengths(layer: Any, shape: tuple[int, ...]) -> list[int]:
    """Returns the length of each axis of positions. Several axes of a sequence share its one length."""
    if hasattr(layer, "sequence_axis"):
        lengths = [shape[axis] for axis in layer.sequence_axis]
    else:
        lengths = list(getattr(layer, "grid_shape", None) or shape[1:-1])
    return lengths if len(lengths) > 1 else lengths * axes_of(layer)


def _count_positions(length: Any, positions: Any) -> Float64Array:
    whole, start = getattr(positions, "whole", None), getattr(positions, "start", None)
    if whole is None:
        return np.arange(int(length), dtype=np.float64) + (0.0 if start is None else float(_plain(start)))
    if positions.fraction is not None:
        parts = positions.fraction if isinstance(positions.fraction, list) else [positions.fraction]
        fractions: Float64Array = _plain(positions.nearest) + sum(map(_plain, parts))
        return fractions
    return _plain(whole)


def _plain(value: Any) -> Float64Array:
    import keras

    array = as_array(value) if keras.ops.is_tensor(value) else value
    return np.asarray(array, np.float64)
