"""What the layers share that encode the places of a grid: where these lie, and how the grid was made a sequence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, Literal, get_args

from keras import ops

from keras_pe.layers.axis_encoding import AxisEncoding
from keras_pe.layers.base import Combine, CombiningLayer
from keras_pe.layers.call_arguments import Positions, Shape
from keras_pe.layers.configuration import plain
from keras_pe.rotations.concrete import is_integer
from keras_pe.signal.coordinates import Coordinates, check_coordinates

Flatten = Literal["rows", "columns"]


class GridLayer(CombiningLayer):
    """Base of the layers whose signal is computed from positions alone.

    A subclass makes the encodings of all axes (`_make_encodings`).
    """

    def __init__(
        self,
        *,
        combine: Combine,
        max_length: Any,
        reverse_axes: bool,
        coordinates: Coordinates | Mapping[str, Any] | None,
        grid_shape: Sequence[int] | None,
        class_tokens: int,
        flatten: Flatten,
        **kwargs: Any,
    ) -> None:
        super().__init__(combine=combine, max_length=max_length, **kwargs)
        if flatten not in get_args(Flatten):
            raise ValueError(f"`flatten` must be 'rows' or 'columns'. Received: {flatten=}.")
        if grid_shape is not None and not (grid_shape and all(is_integer(size) and size > 0 for size in grid_shape)):
            raise ValueError(f"`grid_shape` must be positive integers, one per axis, or None. Received: {grid_shape=}.")
        if not is_integer(class_tokens) or class_tokens < 0 or (class_tokens and grid_shape is None):
            raise ValueError(
                "`class_tokens` must be a whole number, at least 0, and 0 where no `grid_shape` is given. "
                f"Received: {class_tokens=}."
            )
        self.reverse_axes = bool(reverse_axes)
        self.coordinates = check_coordinates(coordinates)
        self.grid_shape = None if grid_shape is None else tuple(int(size) for size in grid_shape)
        self.class_tokens = int(class_tokens)
        self.flatten = flatten
        if self.coordinates is not None and max_length is not None:
            raise ValueError(
                f"`max_length` must be None with `coordinates`, which count nothing. Received: {max_length=}."
            )
        # Behind a namespace: TensorFlow wraps the containers of a layer, and refuses to save keys that are no strings.
        self._held = SimpleNamespace(encodings={})

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "reverse_axes": self.reverse_axes,
            "coordinates": None if self.coordinates is None else asdict(self.coordinates),
            "grid_shape": plain(self.grid_shape),
            "class_tokens": self.class_tokens,
            "flatten": self.flatten,
        }

    def build(self, inputs_shape: Shape) -> None:
        tokens = self._tokens
        if tokens is not None and (len(inputs_shape) != 3 or inputs_shape[1] not in (None, tokens)):
            raise ValueError(
                f"`inputs` must have shape (batch, {tokens}, channels) in layer '{self.name}', whose `grid_shape` is "
                f"{self.grid_shape} after {self.class_tokens} class tokens. Received: {inputs_shape=}."
            )
        super().build(inputs_shape)
        if tokens is not None:
            self.input_spec.axes[1] = tokens
        self._encodings(self._axes)

    @property
    def _tokens(self) -> int | None:
        """How many tokens a grid was made, those before it included; None where inputs are a grid."""
        return None if self.grid_shape is None else self.class_tokens + math.prod(self.grid_shape)

    def _encodings(self, axes: int) -> list[AxisEncoding]:
        """Returns the encoding of each axis, made when a call first needs so many: no call decides for later ones."""
        key = axes, self._signal_dtype
        if key not in self._held.encodings:
            self._held.encodings[key] = self._make_encodings(*key)
        encodings: list[AxisEncoding] = self._held.encodings[key]
        return encodings

    def _make_encodings(self, axes: int, dtype: str) -> list[AxisEncoding]:
        """Returns new encodings of each axis."""
        raise NotImplementedError

    def _axes_of(self, inputs_shape: Any, positions: Any) -> int:
        return super()._axes_of(inputs_shape, positions) if self.grid_shape is None else len(self.grid_shape)

    def _length_of_axes(self, inputs_shape: Any, axes: int) -> list[Any]:
        return super()._length_of_axes(inputs_shape, axes) if self.grid_shape is None else list(self.grid_shape)

    def _check_call(self, inputs: Any, positions: Any, start_index: Any) -> list[tuple[Any, Any]]:
        if self.coordinates is not None and start_index is not None:
            raise ValueError(
                f"`start_index` must be None in layer '{self.name}', whose `coordinates` count nothing. "
                f"Received: start_index={start_index!r}."
            )
        return super()._check_call(inputs, positions, start_index)

    def _signal_of_axis(self, axis: int, axes: int, length: Any, positions: Positions | None) -> Any:
        encoding = self._encodings(axes)[axis]
        if positions is None and self.coordinates is not None:
            return encoding.at_coordinates(self.coordinates, length)
        return encoding.signal(length, positions)

    def _grid(self, inputs_shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return inputs_shape if self.grid_shape is None else (inputs_shape[0], *self.grid_shape, inputs_shape[-1])

    def _on_inputs(self, signal: Any, inputs_shape: tuple[Any, ...]) -> Any:
        """Returns the signal of a grid in the order of the tokens, zeros for those before it."""
        batch, channels, rank = signal.shape[0], signal.shape[-1], len(signal.shape)
        batch = inputs_shape[0] if batch is None else batch
        if self.flatten == "columns" and rank > 3:
            # As the code did it that this is taken from: its rows of columns are read as if they were rows.
            signal = ops.transpose(signal, (0, *range(rank - 2, 0, -1), rank - 1))
            signal = ops.reshape(signal, (batch, *inputs_shape[1:-1], channels)) if self._tokens is None else signal
        if self._tokens is None:
            return signal
        signal = ops.reshape(signal, (batch, math.prod(self.grid_shape or ()), channels))
        signal = ops.pad(signal, [(0, 0), (self.class_tokens, 0), (0, 0)]) if self.class_tokens else signal
        # A single token would be broadcast where the number of tokens is not known.
        return ops.reshape(signal, (batch, inputs_shape[1], channels))
