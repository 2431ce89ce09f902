"""What the position layers share: their axes, their call arguments, and how the signal meets the inputs."""

from abc import abstractmethod
from typing import Any, Literal, get_args

import keras
from keras import ops

from keras_pe.layers.call_arguments import (
    Positions,
    Shape,
    check_inputs_shape,
    check_max_length,
    check_positions,
    check_reach,
    check_start,
    is_integer,
    per_axis,
    plain,
    resolve_positions,
)
from keras_pe.rotations import LIMIT

Combine = Literal["add", "concatenate", "replace"]


class PositionLayer(keras.layers.Layer):  # type: ignore[misc]
    """Base of the layers that compute a signal from positions and combine it with their inputs.

    A subclass makes its tables or weights in `_build_axes`, and in `_signal` the signal of all axes.
    """

    def __init__(self, *, combine: Combine, max_length: Any, **kwargs: Any) -> None:
        if combine not in get_args(Combine):
            raise ValueError(
                f"`combine` must be one of {', '.join(map(repr, get_args(Combine)))}. Received: {combine=}."
            )
        # Keras would cast positions to the compute dtype, and bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        self.combine = combine
        self.max_length = check_max_length(max_length)
        self.supports_masking = True

    @abstractmethod
    def _build_axes(self, axes: int, channels: int) -> None:
        """Makes what the signal of `axes` positional axes is computed from."""

    @abstractmethod
    def _signal(self, inputs: Any, lengths: list[Any], positions: list[Positions | None]) -> Any:
        """Returns the signal, in `_signal_dtype`, of a shape that broadcasts to that of `inputs`."""

    @property
    def _signal_dtype(self) -> str:
        """The dtype in which the signal is computed and added: never less than float32."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def build(self, inputs_shape: Shape, positions_shape: Any = None, start_index_shape: Any = None) -> None:
        check_inputs_shape(inputs_shape)
        # A grid has an axis for each of its dimensions; on a sequence, a list of positions gives each token several.
        listed = len(positions_shape) if _is_list_of_shapes(positions_shape) else 1
        self._axes = listed if len(inputs_shape) == 3 else len(inputs_shape) - 2
        self._bounds = per_axis(self.max_length, self._axes, "max_length")
        self.input_spec = keras.layers.InputSpec(ndim=len(inputs_shape), axes={-1: inputs_shape[-1]})
        self._build_axes(self._axes, int(inputs_shape[-1]))  # type: ignore[arg-type]

    def call(self, inputs: Any, positions: Any = None, start_index: Any = None) -> Any:
        if positions is not None and self._axes > 1 and not isinstance(positions, list | tuple):
            raise TypeError(
                f"`positions` must be a list of {self._axes}, one per positional axis of layer '{self.name}'. "
                f"Received: {type(positions).__name__}."
            )
        positions = per_axis(positions, self._axes, "positions")
        starts = per_axis(start_index, self._axes, "start_index")
        self._check_call(inputs.shape, positions, starts)
        lengths = self._per_grid_dimension(ops.shape(inputs))
        resolved = [resolve_positions(*each) for each in zip(positions, starts, lengths, strict=True)]
        return self._combine(inputs, self._signal(inputs, lengths, resolved))

    def compute_output_shape(
        self, inputs_shape: Shape, positions_shape: Any = None, start_index_shape: Any = None
    ) -> Shape:
        check_inputs_shape(inputs_shape)
        if positions_shape is None and start_index_shape is None:
            axes = len(inputs_shape) - 2
            for length, bound in zip(inputs_shape[1:-1], per_axis(self.max_length, axes, "max_length"), strict=True):
                self._check_reach(0, length, bound)
        channels = inputs_shape[-1]
        return (*inputs_shape[:-1], 2 * channels if self.combine == "concatenate" else channels)  # type: ignore[operator]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Returns the mask of the inputs: positions do not change it."""
        return previous_mask

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "combine": self.combine, "max_length": plain(self.max_length)}

    def _check_call(self, inputs_shape: Shape, positions: list[Any], starts: list[Any]) -> None:
        batch, lengths = inputs_shape[0], self._per_grid_dimension(inputs_shape)
        for where, start, length, bound in zip(positions, starts, lengths, self._bounds, strict=True):
            if where is not None:
                check_positions(where, batch, length)
            if start is not None:
                check_start(start, batch)
            if where is None and (start is None or is_integer(start)):
                self._check_reach(start or 0, length, bound)

    def _per_grid_dimension(self, inputs_shape: tuple[Any, ...]) -> list[Any]:
        """Returns the length of each axis; the axes of a sequence share the one there is."""
        lengths = inputs_shape[1:-1]
        return list(lengths) if len(lengths) > 1 else [lengths[0]] * self._axes

    def _check_reach(self, first: int, length: int | None, bound: int | None) -> None:
        low, high = (-LIMIT, LIMIT) if bound is None else (0, bound)
        check_reach(first, length, low, high, self.name)

    def _combine(self, inputs: Any, signal: Any) -> Any:
        if self.combine == "add":
            return ops.cast(ops.add(ops.cast(inputs, self._signal_dtype), signal), self.compute_dtype)
        signal = ops.broadcast_to(signal, (*ops.shape(inputs)[:-1], signal.shape[-1]))
        signal = ops.cast(signal, self.compute_dtype)
        if self.combine == "replace":
            return signal
        return ops.concatenate([ops.cast(inputs, self.compute_dtype), signal], axis=-1)


def place_on_grid(signal: Any, axis: int, inputs_rank: int) -> Any:
    """Returns the signal of one axis, `(length, columns)` or `(batch, length, columns)`, in the rank of the inputs."""
    if len(signal.shape) == 2:
        signal = ops.expand_dims(signal, 0)
    if inputs_rank > 3:
        before = list(range(1, 1 + axis))
        after = list(range(2 + axis, inputs_rank - 1))
        signal = ops.expand_dims(signal, tuple(before + after))
    return signal


def _is_list_of_shapes(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and any(isinstance(each, list | tuple) for each in shape)
