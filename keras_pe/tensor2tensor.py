"""tensor2tensor's functions under their own names, to port code.

Arguments, their order and their defaults are those of tensor2tensor 1.15.7, layers/common_attention.py. Differences:

- The numbers are exact; tensor2tensor's own are off by 5e-4 at position 4,096.
- If tensor2tensor returns NaN, because an axis has a single timescale, the result is finite.
- `add_positional_embedding` refuses an input longer than `max_length`, where tensor2tensor adds zeros.
- Functions with trained values create a new layer at each call, since Keras has no variable scopes. Call such a
  function once, while you build a Functional model. `get_layer_timing_signal_learned_1d` is missing, because it would
  return a tensor whose variable belongs to no model. Use `add_layer_timing_signal_learned_1d` instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.base import check_start_index
from keras_pe.layers.learned_position_embedding import LearnedPositionEmbedding
from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding
from keras_pe.protocols import Tensor
from keras_pe.rotations.composed import LIMIT, ComposedEncoding
from keras_pe.rotations.static_values import known_length
from keras_pe.signal.formula import resolve_timescales, timing_signal
from keras_pe.signal.layouts import check_channels

__all__ = [
    "add_layer_timing_signal_learned_1d",
    "add_layer_timing_signal_sinusoid_1d",
    "add_positional_embedding",
    "add_positional_embedding_nd",
    "add_timing_signal_1d",
    "add_timing_signal_1d_given_position",
    "add_timing_signal_nd",
    "add_timing_signals_from_features",
    "add_timing_signals_given_positions",
    "get_layer_timing_signal_sinusoid_1d",
    "get_timing_signal_1d",
]


def get_timing_signal_1d(
    length: int | Tensor, channels: int, min_timescale: float = 1.0, max_timescale: float = 1.0e4, start_index: int = 0
) -> Any:
    """Returns the signal of a range of positions: `(1, length, channels)`, float32; `length` may be a scalar tensor."""
    check_channels(channels)
    known = known_length(length)
    if known is not None and known < 0:
        raise ArgValueError("length", f"must be at least 0. Received: length={known}.")
    length = ops.maximum(length, 0) if known is None else known
    scales = resolve_timescales(channels, min_timescale, max_timescale)
    start = int(check_start_index(start_index))  # type: ignore[arg-type]
    if known is not None and start + known > LIMIT:
        raise ValueError(
            f"`start_index + length` must be at most {LIMIT:,}, up to where the encoding is exact. "
            f"Received: {start_index=}, length={known}."
        )
    encoding = ComposedEncoding(scales, channels, "concatenated", start, "float32", -LIMIT - start, LIMIT - start)
    return ops.expand_dims(encoding.range(length), 0)


def add_timing_signal_1d(
    x: Tensor, min_timescale: float = 1.0, max_timescale: float = 1.0e4, start_index: int = 0
) -> Any:
    """Returns `x`, `(batch, length, channels)`, with the signal of its positions added."""
    return _encoding(x, min_timescale, max_timescale, start_index)(x)


def add_timing_signal_1d_given_position(
    x: Tensor, position: Tensor, min_timescale: float = 1.0, max_timescale: float = 1.0e4
) -> Any:
    """Returns `x`, `(batch, length, channels)`, with the signal of `position`, `(batch, length)`, added."""
    return _encoding(x, min_timescale, max_timescale)(x, positions=position)


def add_timing_signals_given_positions(
    x: Tensor, positions: Sequence[Tensor | None], min_timescale: float = 1.0, max_timescale: float = 1.0e4
) -> Any:
    """Returns `x`, `(batch, length, channels)`, with a block of columns for each of several positions added.

    Each of `positions` is `(batch, length)`, or None for `0, ..., length - 1`.
    """
    return _encoding(x, min_timescale, max_timescale)(x, positions=list(positions))


def add_timing_signals_from_features(
    x: Tensor,
    features: Mapping[str, Tensor],
    position_features: str,
    min_timescale: float = 1.0,
    max_timescale: float = 1.0e4,
) -> Any:
    """Returns `add_timing_signals_given_positions` of the features named in a comma-separated list.

    An empty name, or one that is not in `features`, stands for `0, ..., length - 1`.
    """
    positions = [features.get(name) for name in position_features.split(",")]
    return add_timing_signals_given_positions(x, positions, min_timescale, max_timescale)


def add_timing_signal_nd(x: Tensor, min_timescale: float = 1.0, max_timescale: float = 1.0e4) -> Any:
    """Returns `x`, `(batch, d1, ..., dn, channels)`, with the signals of its n axes added, side by side."""
    return _encoding(x, min_timescale, max_timescale)(x)


def get_layer_timing_signal_sinusoid_1d(channels: int, layer: int, num_layers: int) -> Any:
    """Returns the signal of layer number `layer` of `num_layers`: `(1, 1, channels)`, float32."""
    return ops.convert_to_tensor(_layer_signal(channels, layer, num_layers))


def add_layer_timing_signal_sinusoid_1d(x: Tensor, layer: int, num_layers: int) -> Any:
    """Returns `x`, `(batch, length, channels)`, with the signal of layer number `layer` added to each position."""
    # A NumPy constant, where an eager tensor would become an input of an exported graph.
    return ops.add(x, _layer_signal(x.shape[-1], layer, num_layers).astype(_float_dtype(x)))


def add_layer_timing_signal_learned_1d(x: Tensor, layer: int, num_layers: int) -> Any:
    """Returns `x`, `(batch, length, channels)`, with a trained vector for layer number `layer` added."""
    _check_layer(layer, num_layers)
    signal = _learned_signal(x[:, :1], num_layers, None, start_index=layer)
    return ops.add(x, signal)


def add_positional_embedding(
    x: Tensor, max_length: int, name: str | None = None, positions: Tensor | None = None
) -> Any:
    """Returns `x`, `(batch, length, channels)`, with a trained vector for each position added."""
    initializer = keras.initializers.GlorotUniform()  # default of tf.get_variable
    return LearnedPositionEmbedding(max_length, initializer=initializer, name=name, dtype=_float_dtype(x))(
        x, positions=positions
    )


def add_positional_embedding_nd(x: Tensor, max_length: int, name: str | None = None) -> Any:
    """Returns `x`, `(batch, d1, ..., dn, channels)`, with a trained vector for each position of each axis added."""
    return ops.add(x, _learned_signal(x, max_length, name))


def _encoding(
    x: Tensor, min_timescale: float, max_timescale: float, start_index: int = 0
) -> SinusoidalPositionEncoding:
    return SinusoidalPositionEncoding(
        min_timescale=min_timescale, max_timescale=max_timescale, start_index=start_index, dtype=_float_dtype(x)
    )


def _float_dtype(x: Tensor) -> str:
    dtype: str = keras.backend.standardize_dtype(x.dtype)
    if "float" not in dtype:
        raise ArgTypeError(
            "x", f"must be of a floating-point dtype: a signal is added to it. Received: x.dtype={dtype}."
        )
    return dtype


def _learned_signal(x: Tensor, max_length: int, name: str | None, **call_arguments: Any) -> Any:
    """Returns trained vectors as tensor2tensor scales them: small as variables, of unit variance as a signal."""
    channels = x.shape[-1]
    initializer = keras.initializers.RandomNormal(stddev=channels**-0.5)
    embedding = LearnedPositionEmbedding(
        max_length, initializer=initializer, combine="replace", name=name, dtype=_float_dtype(x)
    )
    return ops.multiply(embedding(x, **call_arguments), channels**0.5)


def _layer_signal(channels: int, layer: int, num_layers: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    _check_layer(layer, num_layers)
    return timing_signal([[layer]], channels).astype(np.float32)


def _check_layer(layer: int, num_layers: int) -> None:
    if not 0 <= layer < num_layers:
        raise ArgValueError("layer", f"must be from 0 to num_layers - 1. Received: {layer=}, {num_layers=}.")
