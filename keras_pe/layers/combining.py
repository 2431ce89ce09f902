"""What the layers share that combine their inputs with a signal of the positions."""

from typing import Any, Literal, get_args

import keras
from keras import ops

from keras_pe.layers.base import PositionLayer
from keras_pe.layers.call_arguments import Positions, Shape, check_inputs_shape

Combine = Literal["add", "concatenate", "replace"]


class CombiningLayer(PositionLayer):
    """Base of the layers that compute a signal from positions and combine it with their inputs.

    A subclass gives the signal of one axis (`_signal_of_axis`), and joins those of several (`_join`).
    """

    def __init__(self, *, combine: Combine, max_length: Any, **kwargs: Any) -> None:
        if combine not in get_args(Combine):
            raise ValueError(
                f"`combine` must be one of {', '.join(map(repr, get_args(Combine)))}. Received: {combine=}."
            )
        super().__init__(max_length=max_length, **kwargs)
        self.combine = combine

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "CombiningLayer":
        """Returns a layer of a configuration; Keras' reader of `.h5` takes "add" for the function of that name."""
        combine = config.get("combine")
        layer: CombiningLayer = cls(**{**config, "combine": combine.__name__} if callable(combine) else config)
        return layer

    def _signal_of_axis(self, axis: int, axes: int, length: Any, positions: Positions | None) -> Any:
        """Returns the signal along one of several axes: `(length, columns)`, or `(batch, length, columns)`."""
        raise NotImplementedError

    def _join(self, signals: list[Any], grid: tuple[Any, ...]) -> Any:
        """Returns one signal of those of all axes, each of the rank of the grid and 1 long along the other axes."""
        raise NotImplementedError

    def _grid(self, inputs_shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the shape `(batch, d1, ..., dn, channels)` in which the axes of the positions lie."""
        return inputs_shape

    def _on_inputs(self, signal: Any, inputs_shape: tuple[Any, ...]) -> Any:
        """Returns the signal of a grid as the inputs lie."""
        return signal

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self._channels = int(inputs_shape[-1])  # type: ignore[arg-type]
        self.input_spec = keras.layers.InputSpec(ndim=len(inputs_shape), axes={-1: self._channels})

    def call(self, inputs: Any, positions: Any = None, start_index: Any = None) -> Any:
        inputs_shape = ops.shape(inputs)
        given, grid = self._positions_of_axes(inputs, inputs_shape, positions, start_index), self._grid(inputs_shape)
        axes, signals = len(given), []
        for axis, (length, values) in enumerate(given):
            signal = self._signal_of_axis(axis, axes, length, values)
            signals.append(_place_on_grid(signal, axis, len(grid)))
        signal = signals[0] if axes == 1 else self._join(signals, grid)
        return self._combine(inputs, self._on_inputs(signal, inputs_shape))

    def compute_output_spec(self, inputs: Any, positions: Any = None, start_index: Any = None, **kwargs: Any) -> Any:
        """Returns shape and dtype of the outputs; what is known of the arguments is checked as in a call."""
        check_inputs_shape(inputs.shape)
        self._check_call(inputs, positions, start_index)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        check_inputs_shape(inputs_shape)
        channels = inputs_shape[-1]
        return (*inputs_shape[:-1], 2 * channels if self.combine == "concatenate" else channels)  # type: ignore[operator]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "combine": self.combine}

    def _block_width(self, axes: int) -> int:
        """Returns how many of the channels belong to each of several axes: whole pairs; a single axis has them all."""
        return self._channels if axes == 1 else self._channels // (2 * axes) * 2

    def _combine(self, inputs: Any, signal: Any) -> Any:
        if self.combine == "add":
            # Not ops.add, which adds as a bias what has one row, and fails where there is none.
            return ops.cast(ops.cast(inputs, self._signal_dtype) + signal, self.compute_dtype)
        signal = ops.broadcast_to(signal, (*ops.shape(inputs)[:-1], signal.shape[-1]))
        signal = ops.cast(signal, self.compute_dtype)
        if self.combine == "replace":
            return ops.copy(signal)  # PyTorch may have returned rows of the table itself, which a user could change
        return ops.concatenate([ops.cast(inputs, self.compute_dtype), signal], axis=-1)


def _place_on_grid(signal: Any, axis: int, rank: int) -> Any:
    """Returns the signal of one axis, `(length, columns)` or `(batch, length, columns)`, in the rank of the grid."""
    if len(signal.shape) == 2:
        signal = ops.expand_dims(signal, 0)
    if rank > 3:
        before = list(range(1, 1 + axis))
        after = list(range(2 + axis, rank - 1))
        signal = ops.expand_dims(signal, tuple(before + after))
    return signal
