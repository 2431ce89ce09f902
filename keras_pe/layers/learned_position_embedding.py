"""The position table of BERT: a trained vector for each position."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axis_positions import Positions
from keras_pe.layers.base import Combine, CombiningLayer
from keras_pe.layers.call_arguments import Shape, check_integers, per_axis
from keras_pe.rotations.lookup import TrainedRows
from keras_pe.signal.formula import timing_signal


@keras.saving.register_keras_serializable(package="keras_pe")
class LearnedPositionEmbedding(CombiningLayer):
    """Combines its inputs with a trained vector for each position.

    If the inputs have several positional axes, each axis has its own table. The vectors of the axes are summed, as by
    `add_positional_embedding_nd` of tensor2tensor.

    Args:
        max_length: Number of positions that have a vector, or one number per axis.
        initializer: Initial values of the tables: an initializer of Keras, or "sinusoidal" to start from the signal of
            `SinusoidalPositionEncoding` in its default configuration.
        combine: "add", "concatenate" or "replace", as in `SinusoidalPositionEncoding`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, channels)` or `(batch, d1, ..., dn, channels)`.
        positions: Positions to look up instead of `0, ..., length - 1`: an integer tensor of shape `(length,)` or
            `(batch, length)`, with values from 0 to `max_length - 1`. Several axes take a list of one per axis.
        start_index: Integer, or integer tensor of shape `()` or `(batch,)`: the position of the first element; a list
            of one per axis if they differ.

    Input shape:
        `(batch, length, channels)` or `(batch, d1, ..., dn, channels)`, `channels` known.

    Output shape:
        That of the inputs; with `combine="concatenate"` the channels are doubled.

    Raises:
        ValueError: If `max_length < 1`, if an input is longer than `max_length`, or if shapes do not agree. If only the
            running graph knows a position past the end, the graph fails on a CPU in TensorFlow, PyTorch and ONNX
            Runtime. It returns NaN in JAX, in code compiled by XLA, on GPUs and in delegates.
        TypeError: If an argument is of the wrong type, such as float positions.

    Source:
        Devlin et al., "BERT", section 3.2; tensor2tensor 1.15.7, layers/common_attention.py,
        `add_positional_embedding` and `add_positional_embedding_nd`.

    >>> tuple(LearnedPositionEmbedding(512)(keras.ops.zeros((1, 6, 8))).shape)
    (1, 6, 8)
    """

    def __init__(
        self,
        max_length: int | tuple[int, ...],
        *,
        initializer: Any = "uniform",
        combine: Combine = "add",
        **kwargs: Any,
    ) -> None:
        if max_length is None:
            raise ArgTypeError("max_length", "must be an integer, or one per axis. Received: max_length=None.")
        if hasattr(initializer, "shape"):
            raise ArgTypeError(
                "initializer",
                "must be an initializer of Keras, or its name, or 'sinusoidal'. Received: an array of "
                f"shape {tuple(initializer.shape)}. After build(), layer.set_weights([array]) sets a table.",
            )
        super().__init__(combine=combine, max_length=max_length, **kwargs)
        self.initializer = initializer if initializer == "sinusoidal" else keras.initializers.get(initializer)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        initializer = self.initializer
        if initializer != "sinusoidal":
            initializer = keras.initializers.serialize(initializer)
        return {**super().get_config(), "initializer": initializer}

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        bounds = per_axis(self.max_length, self._axes, "max_length")
        self._tables = tuple(
            self.add_weight(
                name="embeddings" if len(bounds) == 1 else f"embeddings_{axis}",
                shape=(bound, self._channels),
                initializer=self._axis_initializer(axis, len(bounds)),
            )
            for axis, bound in enumerate(bounds)
        )
        # TensorFlow's own checkpoints and saved models find a variable that is an attribute, not one in a sequence.
        for axis, table in enumerate(self._tables):
            setattr(self, f"_table_{axis}", table)
        self._rows = tuple(TrainedRows(bound) for bound in bounds)

    def _axis_initializer(self, axis: int, axes: int) -> Any:
        if self.initializer != "sinusoidal":
            return self.initializer.clone() if hasattr(self.initializer, "clone") else self.initializer

        def sinusoidal(shape: tuple[int, int], dtype: str | None = None) -> Any:
            table, block = np.zeros(shape), self._block_width(axes)
            if block:
                table[:, axis * block : (axis + 1) * block] = timing_signal(np.arange(shape[0]), block)
            return ops.convert_to_tensor(table, dtype=dtype)

        return sinusoidal

    def _check_call(self, inputs: Any, positions: Any, start_index: Any) -> list[tuple[Any, Any]]:
        given = super()._check_call(inputs, positions, start_index)
        if self.built and len(given) != len(self._tables):
            raise ArgValueError(
                "positions",
                f"must be those of {len(self._tables)} axes in layer '{self.name}', which has a trained "
                f"table for each. Received: positions of {len(given)}.",
            )
        for values, _ in given:
            check_integers(values, self.name)
        return given

    def _signal_of_axis(self, axis: int, axes: int, length: Any, positions: Positions | None) -> Any:
        table, rows = self._tables[axis], self._rows[axis]
        if positions is None or positions.whole is None:
            signal = rows.range(table, length, None if positions is None else positions.start)
        else:
            signal = rows.at(table, positions.whole)
        return ops.cast(signal, self._signal_dtype)

    def _join(self, signals: list[Any], grid: tuple[Any, ...]) -> Any:
        """Returns the sum of the vectors of all axes."""
        total, *others = signals
        for signal in others:
            total = ops.add(total, signal)
        return total
