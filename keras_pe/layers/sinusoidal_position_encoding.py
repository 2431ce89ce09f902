"""The sinusoidal position encoding of tensor2tensor and the Transformer, exact at any position."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Never

import keras
from keras import ops

from keras_pe.layers.base import Combine, PositionLayer
from keras_pe.layers.call_arguments import Positions, Shape, check_start_index, count_axes, per_axis, plain
from keras_pe.rotations.concrete import outside_of_traces
from keras_pe.rotations.encodings import AxisConfiguration, AxisEncoding, shared_encoding
from keras_pe.signal.layouts import Layout, block_width, check_layout
from keras_pe.signal.timescales import check_range, check_timescales, resolve_timescales


@keras.saving.register_keras_serializable(package="keras_pe")
class SinusoidalPositionEncoding(PositionLayer):
    """Combines its inputs with sines and cosines of their positions.

    Column `i` of the first half of the signal is `sin(position / timescale[i])`, of the second half
    `cos(position / timescale[i])`, with `timescale[i] = (max_timescale / min_timescale) ** (i / (n - 1)) /
    min_timescale` for `n = channels // 2` timescales. An odd last column is zero; a single channel is all zeros.

    The signal is within 2.5e-7 of the exact one at every position from -2**24 to 2**24 - 1, whole or not, whether the
    positions are a range, start at `start_index`, or are given. It is computed in float32 under every dtype policy (in
    float64 under a float64 policy), added in that precision, and cast to the compute dtype once, last.

    With inputs of several positional axes, each axis has `channels // (2 n)` timescales and a block of columns of its
    own, side by side; columns left over are zeros at the end.

    Args (by name alone: the first argument of such a layer is a width or a length elsewhere):
        min_timescale: 1 gives the usual encoding. tensor2tensor's code multiplies by it where its documentation
            divides: timescales run from `1 / min_timescale` to `max_timescale / min_timescale**2`, and so they do here.
            For a sequence from `a` to `b` pass `min_timescale=1 / a, max_timescale=b / a**2`.
        max_timescale: With `min_timescale=1` the longest timescale, in positions (wavelength / 2 pi).
        start_index: Position of the first element: an integer, or one per axis.
        layout: "concatenated" puts the sines before the cosines, as tensor2tensor does; "interleaved" alternates them,
            as the Transformer paper does.
        endpoint: True: the last timescale is the longest (tensor2tensor). False: the sequence stops one step before
            (the paper).
        timescales: Explicit timescales, in positions, instead of the three arguments that define them: `channels // 2`
            of them (`channels // (2 n)` for n axes). With one more for an odd number of channels, the last column of
            the layout is cut off instead of a zero column being added.
        combine: "add" adds the signal to the inputs, "concatenate" appends it to their channels, "replace" returns it
            alone.
        max_length: None takes any length. An integer, or one per axis, makes the signal a table of that many rows, up
            to 8,192: the fastest graph. A larger one is composed from a table of its first 512 rows and one row for
            each further 512, under 2 MB for 65,536 positions of 512 channels. Positions are then counted from
            `start_index` and must be from 0 to `max_length - 1`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, channels)` or `(batch, d1, ..., dn, channels)`.
        positions: Positions to encode instead of `0, ..., length - 1`: an integer or float tensor of shape `(length,)`
            or `(batch, length)`. For several axes a list of one per axis, where None stands for the range. On inputs of
            one positional axis a list gives each element several coordinates.
        start_index: Integer, or integer tensor of shape `()` or `(batch,)`, added to the configured one; a list of one
            per axis where they differ.

    Input shape:
        `(batch, length, channels)` or `(batch, d1, ..., dn, channels)`, `channels` known.

    Output shape:
        That of the inputs; with `combine="concatenate"` the channels are doubled.

    Raises:
        ValueError: If an argument is out of its range, if shapes do not agree, or if a position is known to be out of
            reach. A position that is out of reach and only known while the graph runs fails in TensorFlow, PyTorch and
            ONNX Runtime on the CPU; JAX and code compiled by XLA return NaN for it, and GPU kernels of TensorFlow do
            not check.
        TypeError: If an argument is of the wrong type.

    Source:
        tensor2tensor 1.15.7, layers/common_attention.py, `add_timing_signal_1d`, `add_timing_signal_nd` and
        `add_timing_signals_given_positions`. Where tensor2tensor divides by zero and returns NaN, because an axis has
        a single timescale, this layer is finite, as `get_timing_signal_1d` is. Vaswani et al., "Attention Is All You
        Need", section 3.5: `layout="interleaved", endpoint=False`.

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
        combine: Combine = "add",
        max_length: int | Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        if positional:
            raise TypeError(
                "Arguments must be given by name: the width is that of the inputs, and the first one elsewhere is a "
                f"width, a length or a timescale. Received: {', '.join(map(repr, positional))}. "
                "max_length=... bounds the length, min_timescale=... and max_timescale=... are tensor2tensor's."
            )
        check_range(min_timescale, max_timescale)
        check_layout(layout)
        if not isinstance(endpoint, bool):
            raise TypeError(f"`endpoint` must be True or False. Received: {endpoint=}.")
        super().__init__(combine=combine, max_length=max_length, **kwargs)
        self.min_timescale = float(min_timescale)
        self.max_timescale = float(max_timescale)
        self.start_index = check_start_index(start_index)
        self.layout = layout
        self.endpoint = endpoint
        self.timescales = None if timescales is None else tuple(check_timescales(timescales).tolist())
        # Behind a namespace: TensorFlow wraps the containers of a layer, and refuses to save keys that are no strings.
        self._made = SimpleNamespace(encodings={})

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "min_timescale": self.min_timescale,
            "max_timescale": self.max_timescale,
            "start_index": plain(self.start_index),
            "layout": self.layout,
            "endpoint": self.endpoint,
            "timescales": plain(self.timescales),
        }

    def build(self, inputs_shape: Shape, positions_shape: Any = None, start_index_shape: Any = None) -> None:
        super().build(inputs_shape, positions_shape, start_index_shape)
        self._encodings(count_axes(inputs_shape, positions_shape))

    def _encodings(self, axes: int) -> list[AxisEncoding]:
        """Returns the encoding of each axis, made when a call first needs so many: no call decides for later ones."""
        key = axes, self._signal_dtype
        if key not in self._made.encodings:
            self._made.encodings[key] = self._make_encodings(*key)
        encodings: list[AxisEncoding] = self._made.encodings[key]
        return encodings

    @outside_of_traces
    def _make_encodings(self, axes: int, dtype: str) -> list[AxisEncoding]:
        block = block_width(self._channels, axes)
        scales = resolve_timescales(
            block, self.min_timescale, self.max_timescale, endpoint=self.endpoint, timescales=self.timescales
        )
        starts = per_axis(self.start_index, axes, "start_index")
        bounds = per_axis(self.max_length, axes, "max_length")
        return [
            shared_encoding(AxisConfiguration(tuple(scales.tolist()), block, self.layout, start, bound, dtype))
            for start, bound in zip(starts, bounds, strict=True)
        ]

    def _signal_of_axis(self, axis: int, axes: int, length: Any, positions: Positions | None) -> Any:
        encoding = self._encodings(axes)[axis]
        if positions is None:
            return encoding.range(length)
        if positions.whole is None:
            return encoding.range(length, positions.start)
        if positions.fraction is None:
            return encoding.at(positions.whole)
        return encoding.between(positions.whole, positions.nearest, positions.fraction)

    def _join(self, signals: list[Any], inputs_shape: tuple[Any, ...]) -> Any:
        """Returns the blocks of columns of all axes side by side, zeros in columns left over."""
        batch, *grid = inputs_shape[:-1]
        block = block_width(self._channels, len(signals))
        if all(signal.shape[0] == 1 for signal in signals):
            batch = 1
        joined = ops.concatenate([ops.broadcast_to(each, (batch, *grid, block)) for each in signals], axis=-1)
        left_over = self._channels - block * len(signals)
        return ops.pad(joined, [(0, 0)] * (len(inputs_shape) - 1) + [(0, left_over)]) if left_over else joined
