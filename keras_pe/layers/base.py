"""What the position layers share: their axes, their call arguments, and how the signal meets the inputs."""

from typing import Any, Literal, get_args

import keras
from keras import ops

from keras_pe.layers.call_arguments import (
    Positions,
    Shape,
    check_before_conversion,
    check_inputs_dtype,
    check_inputs_shape,
    check_positions,
    check_start,
    count_axes,
    per_axis,
    read_variables,
    resolve_positions,
    split_on_host,
)
from keras_pe.layers.configuration import check_max_length, plain
from keras_pe.layers.reach import check_range_reach, check_values_reach
from keras_pe.rotations.concrete import known_length
from keras_pe.rotations.digits import LIMIT

Combine = Literal["add", "concatenate", "replace"]


class PositionLayer(keras.layers.Layer):  # type: ignore[misc]
    """Base of the layers that compute a signal from positions and combine it with their inputs.

    A subclass gives the signal of one axis (`_signal_of_axis`), and joins those of several (`_join`).
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
        self._axes = 0  # of the positions that the first call gave, or 0 before it: what is built may depend on them

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PositionLayer":
        """Returns a layer of a configuration; Keras' reader of `.h5` takes "add" for the function of that name."""
        combine = config.get("combine")
        layer: PositionLayer = cls(**{**config, "combine": combine.__name__} if callable(combine) else config)
        return layer

    def _signal_of_axis(self, axis: int, axes: int, length: Any, positions: Positions | None) -> Any:
        """Returns the signal along one of several axes: `(length, columns)`, or `(batch, length, columns)`."""
        raise NotImplementedError

    def _join(self, signals: list[Any], inputs_shape: tuple[Any, ...]) -> Any:
        """Returns one signal of those of all axes, each of the rank of the inputs and 1 long along the other axes."""
        raise NotImplementedError

    @property
    def _signal_dtype(self) -> str:
        """The dtype in which the signal is computed and added: never less than float32."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def __call__(self, inputs: Any, positions: Any = None, start_index: Any = None, **kwargs: Any) -> Any:
        # Keras converts what it is given before `call` sees it.
        check_before_conversion(inputs, positions, start_index, self.name)
        if not self.built:
            self._axes = count_axes(getattr(inputs, "shape", ()), positions)
        given = {"positions": split_on_host(positions), "start_index": start_index}
        return super().__call__(inputs, **{name: value for name, value in given.items() if value is not None}, **kwargs)

    def build(self, inputs_shape: Shape) -> None:
        check_inputs_shape(inputs_shape)
        self._axes = self._axes or count_axes(inputs_shape, None)
        self._channels = int(inputs_shape[-1])  # type: ignore[arg-type]
        self.input_spec = keras.layers.InputSpec(ndim=len(inputs_shape), axes={-1: self._channels})

    def get_build_config(self) -> dict[str, Any] | None:
        """Returns the shape of the inputs, and of how many axes the positions were."""
        config = super().get_build_config()
        return None if config is None else {**config, "axes": self._axes}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Makes the state of a layer that was built with other inputs of that shape."""
        self._axes = config["axes"]
        super().build_from_config(config)

    def call(self, inputs: Any, positions: Any = None, start_index: Any = None) -> Any:
        positions, start_index = read_variables(positions), read_variables(start_index)
        given = self._check_call(inputs, positions, start_index)
        axes = len(given)
        lengths = self._length_of_axes(ops.shape(inputs), axes)
        signals = []
        for axis, ((values, start), length) in enumerate(zip(given, lengths, strict=True)):
            signal = self._signal_of_axis(axis, axes, length, resolve_positions(values, start, length))
            signals.append(_place_on_grid(signal, axis, len(inputs.shape)))
        return self._combine(inputs, signals[0] if axes == 1 else self._join(signals, ops.shape(inputs)))

    def compute_output_spec(self, inputs: Any, positions: Any = None, start_index: Any = None, **kwargs: Any) -> Any:
        """Returns shape and dtype of the outputs; what is known of the arguments is checked as in a call."""
        check_inputs_shape(inputs.shape)
        self._check_call(inputs, positions, start_index)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        check_inputs_shape(inputs_shape)
        channels = inputs_shape[-1]
        return (*inputs_shape[:-1], 2 * channels if self.combine == "concatenate" else channels)  # type: ignore[operator]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Returns the mask of the inputs: positions do not change it."""
        return previous_mask

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "combine": self.combine, "max_length": plain(self.max_length)}

    def _check_call(self, inputs: Any, positions: Any, start_index: Any) -> list[tuple[Any, Any]]:
        """Returns the positions and the start of each axis, or raises where the arguments of a call do not fit."""
        check_inputs_dtype(inputs.dtype)
        batch, axes = inputs.shape[0], count_axes(inputs.shape, positions)
        if positions is not None and axes > 1 and not isinstance(positions, (list, tuple)):
            raise TypeError(
                f"`positions` must be a list of {axes}, one per positional axis of layer '{self.name}'. "
                f"Received: {type(positions).__name__}."
            )
        given = per_axis(positions, axes, "positions"), per_axis(start_index, axes, "start_index")
        lengths, reaches = self._length_of_axes(inputs.shape, axes), self._reach_of_axes(axes)
        for values, start, length, reach in zip(*given, lengths, reaches, strict=True):
            if values is not None:
                check_positions(values, batch, length)
            if start is not None:
                check_start(start, batch)
            if values is None:
                check_range_reach(0 if start is None else start, known_length(length), *reach, self.name)
            else:
                check_values_reach(values, start, *reach, self.name)
        return list(zip(*given, strict=True))

    def _block_width(self, axes: int) -> int:
        """Returns how many of the channels belong to each of several axes: whole pairs; a single axis has them all."""
        return self._channels if axes == 1 else self._channels // (2 * axes) * 2

    def _length_of_axes(self, inputs_shape: Any, axes: int) -> list[Any]:
        """Returns the length of each axis; the axes of a sequence share the one there is."""
        lengths = list(inputs_shape[1:-1])
        return lengths if len(lengths) > 1 else lengths * axes

    def _reach_of_axes(self, axes: int) -> list[tuple[int, int]]:
        """Returns the first position in reach of each axis, and the first one that no longer is."""
        bounds = per_axis(self.max_length, axes, "max_length")
        return [(-LIMIT, LIMIT) if bound is None else (0, bound) for bound in bounds]

    def _combine(self, inputs: Any, signal: Any) -> Any:
        if self.combine == "add":
            # Not ops.add, which adds as a bias what has one row, and fails where there is none.
            return ops.cast(ops.cast(inputs, self._signal_dtype) + signal, self.compute_dtype)
        signal = ops.broadcast_to(signal, (*ops.shape(inputs)[:-1], signal.shape[-1]))
        signal = ops.cast(signal, self.compute_dtype)
        if self.combine == "replace":
            return ops.copy(signal)  # PyTorch may have returned rows of the table itself, which a user could change
        return ops.concatenate([ops.cast(inputs, self.compute_dtype), signal], axis=-1)


def _place_on_grid(signal: Any, axis: int, inputs_rank: int) -> Any:
    """Returns the signal of one axis, `(length, columns)` or `(batch, length, columns)`, in the rank of the inputs."""
    if len(signal.shape) == 2:
        signal = ops.expand_dims(signal, 0)
    if inputs_rank > 3:
        before = list(range(1, 1 + axis))
        after = list(range(2 + axis, inputs_rank - 1))
        signal = ops.expand_dims(signal, tuple(before + after))
    return signal
