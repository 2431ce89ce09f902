"""Base classes: layers that take positions, and layers that combine inputs with a signal.

With them go the checks of what layers are configured with: a start and a largest length, for all axes or for each.
"""

from typing import Any, Literal, get_args

import keras
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axis_positions import Positions, open_positions, resolve_positions, split_on_host
from keras_pe.layers.call_arguments import (
    Shape,
    by_name,
    check_before_conversion,
    check_inputs_dtype,
    check_inputs_shape,
    check_positions,
    check_range_reach,
    check_start,
    check_values_reach,
    count_axes,
    per_axis,
    read_start,
    read_variables,
)
from keras_pe.layers.traced_build import build_in_trace
from keras_pe.rotations.composed import LIMIT
from keras_pe.rotations.static_values import dynamo_is_tracing, known_length
from keras_pe.signal.layouts import is_integer

Combine = Literal["add", "concatenate", "replace"]
PerAxis = int | tuple[int, ...]


class PositionLayer(keras.layers.Layer):  # type: ignore[misc]
    """Base of the layers whose call takes `positions` and `start_index`, one for each axis of their inputs.

    A subclass may say which axes of the inputs have positions (`_axes_of`, `_length_of_axes`).
    """

    _call_arguments: tuple[str, ...] = ("inputs", "positions", "start_index")  # in their order
    _sized_axes: tuple[int, ...] = (-1,)  # the axes of the inputs whose sizes `build` reads

    def __init__(self, *, max_length: Any, **kwargs: Any) -> None:
        # Keras would cast positions to the compute dtype, and bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        self.max_length = check_max_length(max_length)
        self.supports_masking = True
        self._axes = 0  # axes of the first call's positions, 0 before it: weights may depend on them

    @property
    def _signal_dtype(self) -> str:
        """The dtype in which the signal is computed and used: never less than float32."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def __call__(self, *given: Any, **named: Any) -> Any:
        first, *names = self._call_arguments
        if not given and first not in named:
            return super().__call__(**named)  # by the name that a subclass gives it, or Keras tells what is missing
        inputs, *others = given or (named.pop(first),)
        named = by_name(names, others, named, self.name)
        # Keras converts what it is given before `call` sees it.
        check_before_conversion(inputs, named.get("positions"), named.get("start_index"), self.name)
        if dynamo_is_tracing():
            axes = self._axes_of(getattr(inputs, "shape", ()), named.get("positions"))
            build_in_trace(self, inputs, self._sized_axes, _axes=axes)
        elif not self.built:
            self._axes = self._axes_of(getattr(inputs, "shape", ()), named.get("positions"))
        if named.get("positions") is not None:
            named["positions"] = split_on_host(named["positions"])
        seen = {name: value for name, value in named.items() if value is not None}
        return super().__call__(inputs, **seen)

    def build(self, inputs_shape: Shape) -> None:
        check_inputs_shape(inputs_shape)
        self._axes = self._axes or self._axes_of(inputs_shape, None)

    def get_build_config(self) -> dict[str, Any] | None:
        """Returns the shape of the inputs, and of how many axes the positions were."""
        config = super().get_build_config()
        return None if config is None else {**config, "axes": self._axes}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Makes the state of a layer that was built with other inputs of that shape."""
        self._axes = config["axes"]
        super().build_from_config(config)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Returns the mask of the inputs: positions do not change it."""
        return previous_mask

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": plain(self.max_length)}

    def _axes_of(self, inputs_shape: Any, positions: Any) -> int:
        """Returns how many axes the positions of a call have."""
        return count_axes(inputs_shape, positions)

    def _length_of_axes(self, inputs_shape: Any, axes: int) -> list[Any]:
        """Returns the length of each axis; the axes of a sequence share the one there is."""
        lengths = list(inputs_shape[1:-1])
        return lengths if len(lengths) > 1 else lengths * axes

    def _reach_of_axes(self, axes: int) -> list[tuple[int, int]]:
        """Returns the first position in reach of each axis, and the first one that no longer is."""
        bounds = per_axis(self.max_length, axes, "max_length")
        return [(-LIMIT, LIMIT) if bound is None else (0, bound) for bound in bounds]

    def _positions_of_axes(
        self, inputs: Any, inputs_shape: Any, positions: Any, start_index: Any
    ) -> list[tuple[Any, Positions | None]]:
        """Returns the length and the positions of each axis, None for a plain range.

        Args:
            inputs: Inputs of the call.
            inputs_shape: Its shape, sizes that are not known as tensors.
            positions: As the layer was called.
            start_index: As the layer was called.
        """
        given = self._check_call(inputs, read_variables(positions), read_start(start_index))
        lengths = self._length_of_axes(inputs_shape, len(given))
        return [
            (length, resolve_positions(values, start, length))
            for (values, start), length in zip(given, lengths, strict=True)
        ]

    def _check_call(self, inputs: Any, positions: Any, start_index: Any) -> list[tuple[Any, Any]]:
        """Returns the positions and the start of each axis, or raises where the arguments of a call do not fit."""
        check_inputs_dtype(inputs.dtype)
        batch, axes = inputs.shape[0], self._axes_of(inputs.shape, positions)
        if positions is not None and axes > 1 and not isinstance(positions, (list, tuple)):
            raise ArgTypeError(
                "positions",
                f"must be a list of {axes}, one per positional axis of layer '{self.name}'. "
                f"Received: {type(positions).__name__}.",
            )
        values_of_axes = [open_positions(values) for values in per_axis(positions, axes, "positions")]
        given = values_of_axes, per_axis(start_index, axes, "start_index")
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


class CombiningLayer(PositionLayer):
    """Base of the layers that compute a signal from positions and combine it with their inputs.

    A subclass gives the signal of one axis (`_signal_of_axis`), and joins those of several (`_join`).
    """

    def __init__(self, *, combine: Combine, max_length: Any, **kwargs: Any) -> None:
        if combine not in get_args(Combine):
            raise ArgValueError(
                "combine", f"must be one of {', '.join(map(repr, get_args(Combine)))}. Received: {combine=}."
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


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Returns a count that a layer is configured with, or raises unless it is a whole number of at least `least`."""
    if not is_integer(value) or value < least:
        raise ArgValueError(name, f"must be a whole number of at least {least}. Received: {name}={value!r}.")
    return int(value)


def check_start_index(value: Any) -> PerAxis:
    """Returns a configured start as an int, or a tuple of one per axis."""
    starts = value if isinstance(value, (list, tuple)) else [value]
    for start in starts:
        if not is_integer(start):
            raise ArgTypeError("start_index", f"must be an integer, or one per axis. Received: start_index={value!r}.")
        if not -LIMIT <= start < LIMIT:
            raise ArgValueError(
                "start_index",
                f"must be from {-LIMIT:,} to {LIMIT - 1:,}, where the encoding is exact. "
                f"Received: start_index={value!r}.",
            )
    return _int_or_tuple(value, "start_index")


def check_max_length(value: Any) -> PerAxis | None:
    """Returns a configured maximal length as an int, or a tuple of one per axis, or None."""
    if value is None:
        return None
    lengths = value if isinstance(value, (list, tuple)) else [value]
    for length in lengths:
        if not is_integer(length):
            raise ArgTypeError(
                "max_length", f"must be an integer, or one per axis, or None. Received: max_length={value!r}."
            )
        if length < 1:
            raise ArgValueError("max_length", f"must be at least 1. Received: max_length={value!r}.")
    return _int_or_tuple(value, "max_length")


def plain(value: Any) -> Any:
    """Returns a tuple as the list that a configuration file holds, anything else as it is."""
    return list(value) if isinstance(value, tuple) else value


def _int_or_tuple(value: Any, name: str) -> PerAxis:
    if not isinstance(value, (list, tuple)):
        return int(value)
    if not value:
        raise ArgValueError(name, f"must have one value for each positional axis. Received: {name}={value!r}.")
    return tuple(int(each) for each in value)
