"""What the layers that are called with positions share: their axes, their call arguments, and how far these reach."""

from typing import Any

import keras

from keras_pe.layers.call_arguments import (
    Positions,
    Shape,
    by_name,
    check_before_conversion,
    check_inputs_dtype,
    check_inputs_shape,
    check_positions,
    check_start,
    count_axes,
    per_axis,
    read_start,
    read_variables,
    resolve_positions,
    split_on_host,
)
from keras_pe.layers.configuration import check_max_length, plain
from keras_pe.layers.reach import check_range_reach, check_values_reach
from keras_pe.rotations.concrete import known_length
from keras_pe.rotations.digits import LIMIT


class PositionLayer(keras.layers.Layer):  # type: ignore[misc]
    """Base of the layers whose call takes `positions` and `start_index`, one for each axis of their inputs.

    A subclass may say which axes of the inputs have positions (`_axes_of`, `_length_of_axes`).
    """

    _call_arguments: tuple[str, ...] = ("inputs", "positions", "start_index")  # in their order

    def __init__(self, *, max_length: Any, **kwargs: Any) -> None:
        # Keras would cast positions to the compute dtype, and bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        self.max_length = check_max_length(max_length)
        self.supports_masking = True
        self._axes = 0  # of the positions that the first call gave, or 0 before it: what is built may depend on them

    @property
    def _signal_dtype(self) -> str:
        """The dtype in which the signal is computed and used: never less than float32."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def __call__(self, *given: Any, **named: Any) -> Any:
        first, *names = self._call_arguments
        if not given and first not in named:
            return super().__call__(**named)  # by the name that a subclass gives it, or Keras tells what is missing
        inputs, *others = given or (named.pop(first),)
        named = by_name(names, others, named)
        # Keras converts what it is given before `call` sees it.
        check_before_conversion(inputs, named.get("positions"), named.get("start_index"), self.name)
        if not self.built:
            self._axes = self._axes_of(getattr(inputs, "shape", ()), named.get("positions"))
        if named.get("positions") is not None:
            named["positions"] = split_on_host(named["positions"])
        seen = {name: value for name, value in named.items() if value is not None}
        return super().__call__(inputs, *others[len(names) :], **seen)

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
            inputs: What the layer was called with.
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
