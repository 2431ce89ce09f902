"""The sinusoidal position encoding of tensor2tensor and the Transformer, exact at any position."""

from collections.abc import Mapping, Sequence
from typing import Any, Never, get_args

import keras
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axes import Axis, AxisEncoding, Flatten, GridLayer, axis_encoding, reach
from keras_pe.layers.axis_positions import Positions
from keras_pe.layers.base import Combine, check_start_index, plain
from keras_pe.layers.call_arguments import per_axis
from keras_pe.rotations.static_values import outside_of_traces
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.formula import check_number, check_range, check_timescales, resolve_timescales
from keras_pe.signal.layouts import Blocks, Layout, check_layout, join_axes


@keras.saving.register_keras_serializable(package="keras_pe")
class SinusoidalPositionEncoding(GridLayer):
    """Combines its inputs with sines and cosines of their positions.

    Column `i` of the first half of the signal is `sin(position / timescale[i])`; the second half has the cosines.
    The `n = channels // 2` timescales are `timescale[i] = (max_timescale / min_timescale) ** (i / (n - 1)) /
    min_timescale`. An odd last column is zero. The signal is within 2.5e-7 of the exact one at every position from
    -2**24 to 2**24 - 1, also at fractions, under every dtype policy. It is cast to the compute dtype once, last. Each
    of n positional axes has `channels // (2 n)` timescales and a block of columns of its own. docs/positions.md has the
    details.

    Args (by name alone):
        min_timescale: 1 gives the usual encoding. As in tensor2tensor's code, timescales run from `1 / min_timescale`
            to `max_timescale / min_timescale**2`.
        max_timescale: With `min_timescale=1` the longest timescale, in positions (wavelength / 2 pi).
        start_index: Position of the first element: an integer, or one per axis.
        layout: "concatenated" puts the sines before the cosines (tensor2tensor), "interleaved" alternates them (paper),
            "cosine_first" and "interleaved_cosine_first" begin with the cosines (most diffusion models).
        endpoint: Whether the last timescale is the longest (tensor2tensor). Otherwise the next one would be (paper).
        timescales: Explicit timescales, in positions, instead of the arguments that define them: `channels // 2`. If
            the number of channels is odd, one more timescale cuts off the last column.
        scale: Factor of the signal, a positive number (MLX has `sqrt(2 / channels)`).
        reverse_axes: Whether the block of the last axis comes first (MAE and its successors: columns before rows).
        blocks: The order of the columns of several axes. "axis" puts the columns of one axis side by side. "phase" puts
            the sines of all axes before all cosines (timm), or in an interleaved layout before the cosines of the same
            timescale (NeRF).
        coordinates: A `keras_pe.Coordinates`, which measures each axis in parts of its size, instead of counting from 0
            (DETR).
        grid_shape: Sizes of a grid that was flattened to a sequence, `(batch, tokens, channels)`. None if the inputs
            are the grid itself, or a sequence.
        class_tokens: With `grid_shape`, the number of tokens before the grid. The signal of these tokens is zero (MAE).
        flatten: The order in which the grid was flattened: "rows" one after the other, or "columns" (MoCo v3, D-FINE).
            The signal of a grid is computed in this order and read row after row.
        combine: "add" adds the signal to the inputs, "concatenate" appends it to their channels, "replace" returns it.
        max_length: The largest length, an integer or one per axis, which gives the fastest graph. None for any length.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `(batch, length, channels)` or `(batch, d1, ..., dn, channels)`, `channels` known.
        positions: Positions instead of `0, ..., length - 1`: integers or floats, `(length,)` or `(batch, length)`; for
            several axes a list of one per axis, None for the range.
        start_index: Integer, or integers of shape `()` or `(batch,)`, added to the layer's `start_index`; a list of one
            per axis if they differ.

    Returns:
        The shape of the inputs; with `combine="concatenate"` the channels are doubled.

    Raises:
        ValueError: If an argument is out of its range, shapes do not agree, or a position that is known during the call
            is out of reach.
        TypeError: If an argument is of the wrong type.

    Source:
        tensor2tensor 1.15.7, layers/common_attention.py, `add_timing_signal_1d` and `add_timing_signal_nd`; Vaswani et
        al., "Attention Is All You Need", section 3.5: `layout="interleaved", endpoint=False`.

    >>> import numpy as np
    >>> layer = SinusoidalPositionEncoding(combine="replace")
    >>> keras.ops.convert_to_numpy(layer(np.zeros((1, 2, 4), "float32"))).round(3)
    array([[[0.   , 0.   , 1.   , 1.   ],
            [0.841, 0.   , 0.54 , 1.   ]]], dtype=float32)
    """

    def __init__(
        self,
        *positional: Never,
        min_timescale: float = 1.0,
        max_timescale: float = 1.0e4,
        start_index: int | Sequence[int] = 0,
        layout: Layout = "concatenated",
        endpoint: bool = True,
        timescales: Sequence[float] | None = None,
        scale: float = 1.0,
        reverse_axes: bool = False,
        blocks: Blocks = "axis",
        coordinates: Coordinates | Mapping[str, Any] | None = None,
        grid_shape: Sequence[int] | None = None,
        class_tokens: int = 0,
        flatten: Flatten = "rows",
        combine: Combine = "add",
        max_length: int | Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        if positional:
            raise TypeError(
                "Arguments must be passed by name, since other codebases begin with a width, a length or a timescale. "
                f"Received: {', '.join(map(repr, positional))}. The width is that of the inputs. "
                "max_length=... bounds the length, min_timescale=... and max_timescale=... are tensor2tensor's."
            )
        check_range(min_timescale, max_timescale)
        check_layout(layout)
        if not isinstance(endpoint, bool):
            raise ArgTypeError("endpoint", f"must be True or False. Received: {endpoint=}.")
        if blocks not in get_args(Blocks):
            raise ArgValueError("blocks", f"must be 'axis' or 'phase'. Received: {blocks=}.")
        super().__init__(
            combine=combine,
            max_length=max_length,
            reverse_axes=reverse_axes,
            coordinates=coordinates,
            grid_shape=grid_shape,
            class_tokens=class_tokens,
            flatten=flatten,
            **kwargs,
        )
        self.min_timescale = float(min_timescale)
        self.max_timescale = float(max_timescale)
        self.start_index = check_start_index(start_index)
        if self.coordinates is not None and self.start_index != 0:
            raise ArgValueError(
                "start_index", f"must be 0 with `coordinates`, which count nothing. Received: {start_index=}."
            )
        self.layout = layout
        self.endpoint = endpoint
        self.scale = float(check_number("scale", scale))
        self.blocks = blocks
        self.timescales = None if timescales is None else tuple(check_timescales(timescales).tolist())

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "min_timescale": self.min_timescale,
            "max_timescale": self.max_timescale,
            "start_index": plain(self.start_index),
            "layout": self.layout,
            "endpoint": self.endpoint,
            "scale": self.scale,
            "blocks": self.blocks,
            "timescales": plain(self.timescales),
        }

    @outside_of_traces
    def _make_encodings(self, axes: int, dtype: str) -> list[AxisEncoding]:
        block = self._block_width(axes)
        scales = resolve_timescales(
            block, self.min_timescale, self.max_timescale, endpoint=self.endpoint, timescales=self.timescales
        )
        return [
            axis_encoding(Axis(tuple(scales.tolist()), block, self.layout, start, bound, dtype))
            for start, bound in self._starts_and_bounds(axes)
        ]

    def _starts_and_bounds(self, axes: int) -> list[tuple[int, int | None]]:
        starts, bounds = per_axis(self.start_index, axes, "start_index"), per_axis(self.max_length, axes, "max_length")
        return list(zip(starts, bounds, strict=True))

    def _reach_of_axes(self, axes: int) -> list[tuple[int, int]]:
        return [reach(*each) for each in self._starts_and_bounds(axes)]

    def _signal_of_axis(self, axis: int, axes: int, length: Any, positions: Positions | None) -> Any:
        signal = super()._signal_of_axis(axis, axes, length, positions)
        return signal if self.scale == 1.0 else signal * self.scale

    def _join(self, signals: list[Any], grid: tuple[Any, ...]) -> Any:
        """Returns the blocks of columns of all axes side by side, zeros in columns left over."""
        batch, *sizes = grid[:-1]
        block = self._block_width(len(signals))
        left_over = self._channels - block * len(signals)
        if all(signal.shape[0] == 1 for signal in signals):
            batch = 1
        signals = [ops.broadcast_to(each, (batch, *sizes, block)) for each in signals]
        if self.reverse_axes:
            signals = signals[::-1]
        signal = join_axes(signals, self.layout, self.blocks, xp=ops)
        return ops.pad(signal, [(0, 0)] * (len(signal.shape) - 1) + [(0, left_over)]) if left_over else signal
