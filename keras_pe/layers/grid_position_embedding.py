"""The position table of vision transformers: a trained vector for each position of a grid, resized for other grids."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.base import Combine, CombiningLayer, plain
from keras_pe.layers.call_arguments import Shape, check_inputs_dtype, check_inputs_shape
from keras_pe.rotations.lookup import Table
from keras_pe.rotations.static_values import count_up, known_length, quotients
from keras_pe.signal.layouts import is_integer
from keras_pe.signal.resizing import Interpolation, Resizing, check_grid_shape


@keras.saving.register_keras_serializable(package="keras_pe")
class GridPositionEmbedding(CombiningLayer):
    """Combines its inputs with a trained vector for each cell of a grid, resized if the inputs form another grid.

    The table is resized as in `keras_pe.resize_position_table`: each axis is multiplied by one matrix. The layer
    therefore exports to every format, also for images of a size that only the running model knows. The table itself
    stays as trained. `layer.set_weights([pos_embed[0]])` loads the table of a vision transformer.

    Args:
        grid_shape: Sizes of the grid that the table is trained for, such as `(14, 14)`: rows and columns of patches.
        class_tokens: Number of tokens before those of the grid, such as class and distillation tokens. Each has a
            vector of its own, which is never resized.
        interpolation: "bicubic" or "bilinear", as in `resize_position_table`, like the next three.
        antialias: Whether the weights widen if the grid shrinks.
        align_corners: Whether the corners of both grids coincide.
        scale_offset: Added to the new sizes before they are divided by the old ones: 0.1 in DINO and DINOv2.
        initializer: Initial values of the table.
        combine: "add", "concatenate" or "replace", as in `SinusoidalPositionEncoding`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tokens, `(batch, class_tokens + cells, channels)`, the cells row after row. Without class tokens, the
            inputs may be the grid itself, `(batch, d1, ..., dn, channels)`.
        grid: A tensor with the shape of the grid, `(batch, d1, ..., dn, ...)`, such as the patches before they were
            flattened. Only the shape is read. Without `grid`, the tokens form a grid of `grid_shape`. If the grid has
            one axis, its size is the number of tokens.

    Input shape:
        `(batch, tokens, channels)` or `(batch, d1, ..., dn, channels)`, `channels` known.

    Output shape:
        That of the inputs; with `combine="concatenate"` the channels are doubled.

    Raises:
        ValueError: If an argument is not valid, or if the number of tokens does not fit the grid. If only the running
            graph knows the number, the graph fails.

    Source:
        Dosovitskiy et al., "An Image is Worth 16x16 Words", arXiv 2010.11929, section 3.2; PyTorch 2.13,
        `torch.nn.functional.interpolate`.

    >>> layer = GridPositionEmbedding((14, 14), class_tokens=1)
    >>> patches = keras.ops.zeros((1, 16, 24, 8))
    >>> tuple(layer(keras.ops.zeros((1, 1 + 16 * 24, 8)), grid=patches).shape)
    (1, 385, 8)
    """

    _call_arguments = ("inputs", "grid")

    def __init__(
        self,
        grid_shape: Sequence[int],
        *,
        class_tokens: int = 0,
        interpolation: Interpolation = "bicubic",
        antialias: bool = False,
        align_corners: bool = False,
        scale_offset: float = 0.0,
        initializer: Any = "uniform",
        combine: Combine = "add",
        **kwargs: Any,
    ) -> None:
        super().__init__(combine=combine, max_length=None, **kwargs)
        self.grid_shape = check_grid_shape(grid_shape)
        if not is_integer(class_tokens) or class_tokens < 0:
            raise ArgValueError("class_tokens", f"must be a whole number of at least 0. Received: {class_tokens=!r}.")
        self.class_tokens = int(class_tokens)
        self._rule = Resizing.checked(interpolation, antialias, align_corners, scale_offset)
        self.initializer = keras.initializers.get(initializer)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        config = {
            **super().get_config(),
            "grid_shape": plain(self.grid_shape),
            "class_tokens": self.class_tokens,
            **asdict(self._rule),
            "initializer": keras.initializers.serialize(self.initializer),
        }
        del config["max_length"]
        return config

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self._table = self.add_weight(
            name="embeddings",
            shape=(self.class_tokens + math.prod(self.grid_shape), self._channels),
            initializer=self.initializer,
            autocast=False,  # Keras would round the table before it is resized
        )

    def call(self, inputs: Any, grid: Any = None) -> Any:  # type: ignore[override]
        self._check_tokens(inputs, grid)
        inputs_shape = ops.shape(inputs)
        signal = self._resize(self._sizes(inputs_shape, None if grid is None else ops.shape(grid)))
        # A single token would be broadcast where the number of tokens is not known: the reshape fails instead.
        signal = ops.reshape(signal, (1, *inputs_shape[1:-1], self._channels))
        return self._combine(inputs, signal)

    def compute_output_spec(self, inputs: Any, grid: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        """Returns shape and dtype of the outputs; the known sizes are checked as in a call."""
        check_inputs_shape(inputs.shape)
        self._check_tokens(inputs, grid)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def _sizes(self, inputs_shape: tuple[Any, ...], shape: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Returns the sizes of the grid that the inputs form."""
        axes = len(self.grid_shape)
        if shape is not None:
            return tuple(shape[1 : 1 + axes])
        if axes == 1:
            return (inputs_shape[1] if self.class_tokens == 0 else inputs_shape[1] - self.class_tokens,)
        return self.grid_shape if len(inputs_shape) == 3 else tuple(inputs_shape[1:-1])

    def _check_tokens(self, inputs: Any, grid: Any) -> None:
        """Raises ValueError if the inputs cannot form a grid."""
        check_inputs_dtype(inputs.dtype)
        axes, rank = len(self.grid_shape), len(inputs.shape)
        if rank != 3 and (rank != 2 + axes or self.class_tokens or grid is not None):
            raise ArgValueError(
                "inputs",
                f"must be tokens, (batch, tokens, channels), in layer '{self.name}'. Without class tokens and `grid` "
                f"they may be a grid of {axes} axes. Received: inputs.shape={tuple(inputs.shape)}.",
            )
        if grid is not None and (not hasattr(grid, "shape") or len(grid.shape) < 1 + axes):
            received = f"grid.shape={tuple(grid.shape)}" if hasattr(grid, "shape") else f"a {type(grid).__name__}"
            raise ArgValueError(
                "grid",
                f"must be a tensor of shape (batch, {', '.join(f'd{1 + axis}' for axis in range(axes))}, ...) "
                f"in layer '{self.name}'. Received: {received}.",
            )
        tokens = inputs.shape[1]
        if rank > 3 or tokens is None:
            return
        shape = tuple(inputs.shape)
        sizes = self._sizes(shape, None if grid is None else tuple(grid.shape))
        if None not in sizes and (min(sizes) < 1 or tokens != self.class_tokens + math.prod(sizes)):
            raise ArgValueError(
                "inputs",
                f"must have {self.class_tokens} class tokens and one for each place of the grid {sizes} in "
                f"layer '{self.name}'. Received: {inputs.shape=}. `grid` takes a tensor that has another grid's shape.",
            )

    def _resize(self, sizes: tuple[Any, ...]) -> Any:
        """Returns the vectors of class tokens and of a grid of these sizes, `(tokens, channels)`."""
        table = ops.cast(self._table, self._signal_dtype)
        known = [known_length(size) for size in sizes]
        if known == list(self.grid_shape):
            return table
        places = table[self.class_tokens :]
        for axis, matrix in reversed(list(enumerate(self._matrices(sizes, known)))):
            # From the last axis to the first: the axes before have their trained sizes still.
            before, size = self.grid_shape[:axis], self.grid_shape[axis]
            places = ops.matmul(ops.expand_dims(matrix, 0), ops.reshape(places, (math.prod(before), size, -1)))
        places = ops.reshape(places, (-1, self._channels))
        return ops.concatenate([table[: self.class_tokens], places], axis=0) if self.class_tokens else places

    def _matrices(self, sizes: tuple[Any, ...], known: list[int | None]) -> list[Any]:
        """Returns the matrix of each axis: a constant if all sizes are known, or computed while the graph runs."""
        dtype = self._signal_dtype
        if None not in known:
            return [
                _constant(self._rule, old, int(new or 0), dtype).tensor()
                for old, new in zip(self.grid_shape, known, strict=True)
            ]
        kept = [_is_same(old, new) for old, new in zip(self.grid_shape, sizes, strict=True)]
        if self._rule.is_interpolating:
            kept = [math.prod(kept)] * len(kept)
        return [_resizing_matrix(self._rule, *each, dtype) for each in zip(self.grid_shape, sizes, kept, strict=True)]


@lru_cache(maxsize=64)
def _constant(rule: Resizing, size: int, new_size: int, dtype: str) -> Table:
    return Table(rule.matrix(size, new_size).astype(dtype))


def _resizing_matrix(rule: Resizing, size: int, new_size: Any, is_kept: Any, dtype: str) -> Any:
    """Returns the matrix that resizes an axis to a size known at run time: `(new_size, size)`.

    PyTorch's graphs compute with a size as with a number: a tensor of it would be a constant of the graph.
    """
    index = ops.expand_dims(count_up(new_size), -1)
    if not isinstance(new_size, int):
        new_size = ops.cast(new_size, "int32")
    places = rule.places(size, new_size, index, is_kept, ops)
    whole = quotients(places.numerators, places.denominator)
    rest = places.numerators - whole * places.denominator
    step, denominator = (_cast_to_float(each, dtype) for each in (places.step, places.denominator))
    rows = ops.expand_dims(ops.cast(count_up(size), dtype), 0)
    weights = rule.weights(
        ops.cast(whole - 1, dtype), ops.cast(rest, dtype) / denominator, step / denominator, rows, ops
    )
    # int32 holds no larger numerators: a size beyond them has no numbers instead of wrong ones.
    most = (2**31 - 1) // (2 * (size + 1) * rule.denominator_of_offset) - 1
    if isinstance(new_size, int):
        return weights if new_size <= most else weights * float("nan")
    return ops.where(new_size <= most, weights, ops.cast(np.nan, dtype))


def _is_same(size: int, new_size: Any) -> Any:
    """Returns 1 if two sizes are the same, else 0: an int, or a tensor if a graph learns the size when it runs."""
    return int(size == new_size) if isinstance(new_size, int) else ops.cast(ops.equal(new_size, size), "int32")


def _cast_to_float(value: Any, dtype: str) -> Any:
    return float(value) if isinstance(value, int) else ops.cast(value, dtype)
