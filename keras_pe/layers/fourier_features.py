"""Fourier features: sines and cosines of positions projected on given directions."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.axes import Axis, AxisEncoding, Flatten, GridLayer, axis_encoding
from keras_pe.layers.base import Combine
from keras_pe.layers.call_arguments import Shape
from keras_pe.rotations.composed import compose, split
from keras_pe.rotations.static_values import outside_of_traces
from keras_pe.signal.coordinates import Coordinates
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import Layout, assemble, check_layout


@keras.saving.register_keras_serializable(package="keras_pe")
class FourierFeatures(GridLayer):
    """Combines its inputs with sines and cosines of `2 pi positions @ matrix`.

    The layer does not compute the projection. It composes the rotations of the axes, each as exact as in
    `SinusoidalPositionEncoding`. With `coordinates` of known sizes, the result is within 2.5e-7 of the exact result.
    With other positions, each axis may add as much.

    Args:
        matrix: `(axes, channels // 2)`, turns per position along each axis, most often drawn once from a normal
            distribution.
        layout: As in `SinusoidalPositionEncoding`.
        reverse_axes: Whether the first row of the matrix belongs to the last axis (SAM: x before y).
        coordinates: As in `SinusoidalPositionEncoding`, like the next four.
        grid_shape: See there.
        class_tokens: See there.
        flatten: See there.
        combine: See there.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `(batch, length, channels)` or `(batch, d1, ..., dn, channels)`, with twice as many channels as the
            matrix has columns.
        positions: Positions instead of `0, ..., length - 1` or the coordinates: `(length,)` or `(batch, length)`; for
            several axes a list of one per axis.
        start_index: As in `SinusoidalPositionEncoding`.

    Returns:
        The shape of the inputs; with `combine="concatenate"` the channels are doubled.

    Raises:
        ValueError: If an argument is out of its range, shapes do not agree, or a position that is known during the call
            is out of reach.
        TypeError: If an argument is of the wrong type.

    Source:
        Tancik et al., "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains",
        section 2; segment-anything, modeling/prompt_encoder.py, `PositionEmbeddingRandom`.

    >>> import numpy as np
    >>> layer = FourierFeatures([[0.25, 0.5]], combine="replace")
    >>> keras.ops.convert_to_numpy(layer(np.zeros((1, 2, 4), "float32"))).round(3)
    array([[[ 0.,  0.,  1.,  1.],
            [ 1.,  0.,  0., -1.]]], dtype=float32)
    """

    def __init__(
        self,
        matrix: npt.ArrayLike,
        *,
        layout: Layout = "concatenated",
        reverse_axes: bool = False,
        coordinates: Coordinates | Mapping[str, Any] | None = None,
        grid_shape: Sequence[int] | None = None,
        class_tokens: int = 0,
        flatten: Flatten = "rows",
        combine: Combine = "add",
        **kwargs: Any,
    ) -> None:
        check_layout(layout)
        super().__init__(
            combine=combine,
            max_length=None,
            reverse_axes=reverse_axes,
            coordinates=coordinates,
            grid_shape=grid_shape,
            class_tokens=class_tokens,
            flatten=flatten,
            **kwargs,
        )
        self.matrix = tuple(map(tuple, _check_matrix(matrix).tolist()))
        self.layout = layout

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        config = {**super().get_config(), "matrix": [list(row) for row in self.matrix], "layout": self.layout}
        del config["max_length"]
        return config

    def build(self, inputs_shape: Shape) -> None:
        if inputs_shape[-1] != 2 * len(self.matrix[0]):
            raise ArgValueError(
                "inputs",
                f"must have {2 * len(self.matrix[0])} channels in layer '{self.name}', two for each column of "
                f"its matrix. Received: inputs.shape={tuple(inputs_shape)}.",
            )
        super().build(inputs_shape)

    @outside_of_traces
    def _make_encodings(self, axes: int, dtype: str) -> list[AxisEncoding]:
        if axes != len(self.matrix):
            raise ArgValueError(
                "matrix",
                f"must have one row for each positional axis of layer '{self.name}', here {axes}. "
                f"Received: {len(self.matrix)} rows.",
            )
        rows = np.array(self.matrix[::-1] if self.reverse_axes else self.matrix)
        with np.errstate(divide="ignore"):  # a constant direction has an infinite timescale
            timescales = 1 / (2 * np.pi * rows)
        layout: Layout = self.layout if axes == 1 else "concatenated"
        return [axis_encoding(Axis(tuple(each.tolist()), 2 * len(each), layout, 0, None, dtype)) for each in timescales]

    def _join(self, signals: list[Any], grid: tuple[Any, ...]) -> Any:
        """Returns the composition of the rotations of all axes."""
        rotation, *others = map(split, signals)
        for each in others:
            rotation = compose(rotation, each)
        return assemble(*rotation, self._channels, self.layout, xp=ops)


def _check_matrix(matrix: npt.ArrayLike) -> Float64Array:
    """Returns a matrix in float64, or raises unless it is one of finite numbers."""
    values = np.asarray(keras.ops.convert_to_numpy(matrix) if ops.is_tensor(matrix) else matrix)
    if values.dtype.kind not in "iuf" or values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ArgValueError(
            "matrix",
            "must be finite numbers of shape (axes, channels // 2). "
            f"Received: an array of dtype {values.dtype} and shape {values.shape}.",
        )
    return values.astype(np.float64)
