"""Shared encodings of axes, and the base class of layers that encode a grid."""

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axis_positions import Positions, resolve_positions
from keras_pe.layers.base import Combine, CombiningLayer, plain
from keras_pe.layers.call_arguments import Shape
from keras_pe.rotations.composed import LIMIT, Columns, ComposedEncoding
from keras_pe.rotations.fractional import FractionalEncoding
from keras_pe.rotations.lookup import MOST_ROWS, Table, TabulatedEncoding
from keras_pe.rotations.static_values import count_up, known_length
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.formula import sines_and_cosines
from keras_pe.signal.layouts import Layout, assemble, is_integer

Flatten = Literal["rows", "columns"]


class Axis(NamedTuple):
    """Ingredients of the encoding of one axis."""

    timescales: tuple[float, ...]
    channels: int
    layout: Layout
    start_index: int
    max_length: int | None
    dtype: str

    @property
    def reach(self) -> tuple[int, int]:
        """The first position in reach, counted from `start_index`, and the first one that no longer is."""
        return reach(self.start_index, self.max_length)


def reach(start_index: int, max_length: int | None) -> tuple[int, int]:
    """Returns the first position in reach, counted from `start_index`, and the first one that no longer is."""
    return (-LIMIT - start_index, LIMIT - start_index) if max_length is None else (0, max_length)


class AxisEncoding:
    """The encoding of one axis: of whole positions, and of fractions."""

    def __init__(self, axis: Axis) -> None:
        scales, channels, layout, start_index, max_length, dtype = axis
        low, high = axis.reach
        arguments = np.asarray(scales, np.float64), channels, layout, start_index, dtype
        self._whole: ComposedEncoding | TabulatedEncoding = (
            TabulatedEncoding(*arguments, max_length)
            if max_length is not None and max_length <= MOST_ROWS
            else ComposedEncoding(*arguments, low, high)
        )
        self._fractional = FractionalEncoding(*arguments, low, high)
        self._axis = axis
        self._rows_at: tuple[Any, Table] = None, Table(np.zeros((0, channels), dtype))

    def signal(self, length: Any, positions: Positions | None) -> Any:
        """Returns the signal of positions, or of a range: `(length, channels)`, or `(batch, length, channels)`."""
        if positions is None:
            return self._whole.range(length)
        if positions.whole is None:
            return self._whole.range(length, positions.start)
        if positions.fraction is None:
            return self._whole.at(positions.whole)
        return self._fractional.at(positions.whole, positions.nearest, positions.fraction)

    def rotations(self, length: Any, positions: Positions | None) -> Columns:
        """Returns the rotations of positions, or of a range, in a layout in which all sines stand first."""
        if positions is None:
            return self._whole.rotations(length, None, None)
        if positions.fraction is not None:
            return self.signal(length, positions)
        return self._whole.rotations(length, positions.start, positions.whole)

    def at_coordinates(self, coordinates: Coordinates, length: Any) -> Any:
        """Returns the signal of all places of an axis: `(length, channels)`.

        If the length is known, it is as exact as at whole positions. Otherwise coordinates are rounded to the signal's
        dtype, as in any graph.
        """
        known, axis = known_length(length), self._axis
        if known is None:
            size = ops.cast(length, axis.dtype)
            values = coordinates.of(ops.cast(count_up(length), axis.dtype), size, ops)
            return self.signal(None, resolve_positions(values, None, None))
        key, rows = self._rows_at  # another thread may put others in their place meanwhile
        if key != (coordinates, known):
            positions = coordinates.of(np.arange(known), known)
            sin, cos = sines_and_cosines(positions, np.asarray(axis.timescales))
            key, rows = (coordinates, known), Table(assemble(sin, cos, axis.channels, axis.layout).astype(axis.dtype))
            self._rows_at = key, rows
        return rows.tensor()


# An entry lasts while some layer holds it.
_shared: weakref.WeakValueDictionary[Axis, AxisEncoding] = weakref.WeakValueDictionary()


def axis_encoding(axis: Axis) -> AxisEncoding:
    """Returns the encoding of an axis, the one that another layer holds where there is one."""
    encoding = _shared.get(axis)
    if encoding is None:
        encoding = _shared[axis] = AxisEncoding(axis)
    return encoding


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
            raise ArgValueError("flatten", f"must be 'rows' or 'columns'. Received: {flatten=}.")
        sizes = grid_shape if isinstance(grid_shape, Sequence) else ()
        if grid_shape is not None and not (sizes and all(is_integer(size) and size > 0 for size in sizes)):
            raise ArgValueError(
                "grid_shape", f"must be positive integers, one per axis, or None. Received: {grid_shape=}."
            )
        if not is_integer(class_tokens) or class_tokens < 0 or (class_tokens and grid_shape is None):
            raise ArgValueError(
                "class_tokens",
                f"must be a whole number, at least 0, and 0 where no `grid_shape` is given. Received: {class_tokens=}.",
            )
        self.reverse_axes = bool(reverse_axes)
        self.coordinates = _check_coordinates(coordinates)
        self.grid_shape = None if grid_shape is None else tuple(int(size) for size in grid_shape)
        self.class_tokens = int(class_tokens)
        self.flatten = flatten
        if self.coordinates is not None and max_length is not None:
            raise ArgValueError(
                "max_length", f"must be None with `coordinates`, which count nothing. Received: {max_length=}."
            )
        # A namespace hides the containers: TensorFlow wraps them otherwise, and refuses to save keys that are not
        # strings.
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
            raise ArgValueError(
                "inputs",
                f"must have shape (batch, {tokens}, channels) in layer '{self.name}', whose `grid_shape` is "
                f"{self.grid_shape} after {self.class_tokens} class tokens. Received: {inputs_shape=}.",
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
            raise ArgValueError(
                "start_index",
                f"must be None in layer '{self.name}', whose `coordinates` count nothing. "
                f"Received: start_index={start_index!r}.",
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
            # The source of this order reads its columns as if they were rows, so its reshape is repeated here.
            signal = ops.transpose(signal, (0, *range(rank - 2, 0, -1), rank - 1))
            signal = ops.reshape(signal, (batch, *inputs_shape[1:-1], channels)) if self._tokens is None else signal
        if self._tokens is None:
            return signal
        signal = ops.reshape(signal, (batch, math.prod(self.grid_shape or ()), channels))
        signal = ops.pad(signal, [(0, 0), (self.class_tokens, 0), (0, 0)]) if self.class_tokens else signal
        # A single token would be broadcast where the number of tokens is not known.
        return ops.reshape(signal, (batch, inputs_shape[1], channels))


def _check_coordinates(value: Coordinates | Mapping[str, Any] | None) -> Coordinates | None:
    """Returns what a layer was configured with; a mapping is what a configuration file holds."""
    if isinstance(value, Mapping):
        return Coordinates(**value)
    if value is not None and not isinstance(value, Coordinates):
        raise ArgTypeError("coordinates", f"must be Coordinates or None. Received: coordinates={value!r}.")
    return value
