"""The base class of layers that return a bias for each pair of positions on a grid."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axis_positions import OUT_OF_REACH, resolve_positions
from keras_pe.layers.base import check_count, plain
from keras_pe.layers.call_arguments import (
    Shape,
    by_name,
    check_before_conversion,
    check_integers,
    check_positions,
    check_values_reach,
    per_axis,
    read_variables,
)
from keras_pe.layers.relative_base import check_examples, map_pairs
from keras_pe.layers.traced_build import build_in_trace
from keras_pe.rotations.lookup import Table, TrainedRows, take
from keras_pe.rotations.static_values import at_trace_time, count_up, dynamo_is_tracing, visible
from keras_pe.signal.layouts import is_integer
from keras_pe.signal.resizing import check_grid_shape


class GridBiasLayer(keras.layers.Layer):  # type: ignore[misc]
    """Base of the layers that return a bias for attention scores of a grid, `(batch or 1, heads, tokens, tokens)`.

    A table has one row for each distance of two positions, the query's minus the key's. The rows are those of the grid
    of distances, whose sizes are `2 * size - 1`. With a class token three rows follow: class token to position,
    position to class token, and class token to itself. A subclass returns the table (`_rows`).
    """

    _call_arguments = ("positions",)

    def __init__(self, *, num_heads: int, grid_shape: Sequence[int], class_tokens: int, **kwargs: Any) -> None:
        # Keras would cast positions to the compute dtype, and bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        self.num_heads = check_count("num_heads", num_heads)
        self.grid_shape = check_grid_shape(grid_shape)
        if not is_integer(class_tokens) or class_tokens not in (0, 1):
            raise ArgValueError("class_tokens", f"must be 0 or 1. Received: {class_tokens=!r}.")
        self.class_tokens = int(class_tokens)
        self._spans = tuple(2 * size - 1 for size in self.grid_shape)
        self._count = math.prod(self._spans) + 3 * self.class_tokens  # number of rows
        self._trained = TrainedRows(self._count)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads, "grid_shape": plain(self.grid_shape)}

    def _rows(self) -> Any:
        """Returns the table, `(rows, heads)`."""
        raise NotImplementedError

    def __call__(self, queries: Any, *others: Any, **named: Any) -> Any:
        named = by_name(self._call_arguments, others, named, self.name)
        check_before_conversion(queries, named.get("positions"), None, self.name)
        if dynamo_is_tracing():
            build_in_trace(self, queries, ())
        given = {name: value for name, value in named.items() if value is not None}
        return super().__call__(queries, **given)

    def call(self, queries: Any, positions: Any = None) -> Any:
        positions = read_variables(positions)
        self._check_call(queries, positions)
        table = self._rows()
        if positions is None:
            bias = take(table, _tensor_of_grid(self.grid_shape, self.class_tokens))
        else:
            bias = self._trained.at(table, self._rows_of_positions(positions))
        bias = ops.transpose(bias, (0, 3, 1, 2))
        length = ops.shape(queries)[1]
        # A bias of another number of tokens would be broadcast to a single one: the reshape fails instead.
        bias = ops.reshape(bias, (ops.shape(bias)[0], self.num_heads, length, length))
        return ops.cast(bias, self.compute_dtype)

    def compute_output_spec(self, queries: Any, positions: Any = None) -> Any:
        """Returns shape and dtype of the bias."""
        self._check_call(queries, positions)
        shapes = None if positions is None else [tuple(each.shape) for each in positions]
        return keras.KerasTensor(self.compute_output_shape(queries.shape, shapes), self.compute_dtype)

    def compute_output_shape(self, queries_shape: Shape, positions_shape: Sequence[Shape] | None = None) -> Shape:
        """Returns the shape of the bias."""
        batches = [size for shape in positions_shape or () for size in shape[:-1] if size != 1]
        length = self._tokens if positions_shape is None else queries_shape[1]
        return batches[0] if batches else 1, self.num_heads, length, length

    @property
    def _tokens(self) -> int:
        """The number of tokens that form the whole grid, the class token included."""
        return self.class_tokens + math.prod(self.grid_shape)

    def _rows_of_positions(self, positions: Sequence[Any]) -> Any:
        """Returns the row of each pair of tokens, `(batch or 1, tokens, tokens)`; the first past the end for none."""
        rows, is_far = None, None
        for values, size, span in zip(positions, self.grid_shape, self._spans, strict=True):
            resolved = resolve_positions(values, None, None, subtracted=True)
            places = resolved.whole  # type: ignore[union-attr]
            split_columns = -map_pairs(ops.subtract, places, places) + (size - 1)
            beyond = ops.abs(places) >= OUT_OF_REACH
            here = ops.logical_or(
                map_pairs(ops.logical_or, beyond, beyond), ops.logical_or(split_columns < 0, split_columns >= span)
            )
            rows = split_columns if rows is None else rows * span + split_columns
            is_far = here if is_far is None else ops.logical_or(is_far, here)
        rows = ops.where(is_far, self._count, rows)
        return self._with_class_rows(rows) if self.class_tokens else rows

    def _with_class_rows(self, rows: Any) -> Any:
        """Returns rows of pairs, `(batch or 1, tokens, tokens)`, with those of a class token before them."""
        rows = ops.pad(rows, [(0, 0), (1, 0), (1, 0)])
        is_class = ops.expand_dims(ops.equal(count_up(ops.shape(rows)[-1]), 0), 0)
        of_query, of_key = ops.expand_dims(is_class, -1), ops.expand_dims(is_class, 1)
        rows = ops.where(of_key, ops.cast(self._count - 2, rows.dtype), rows)
        rows = ops.where(of_query, ops.cast(self._count - 3, rows.dtype), rows)
        return ops.where(ops.logical_and(of_query, of_key), ops.cast(self._count - 1, rows.dtype), rows)

    def _check_call(self, queries: Any, positions: Any) -> None:
        check_examples("queries", queries)
        length, axes = queries.shape[1], len(self.grid_shape)
        if positions is None:
            if length not in (None, self._tokens):
                raise ArgValueError(
                    "queries",
                    f"must have {self._tokens} tokens in layer '{self.name}', whose grid has the shape "
                    f"{self.grid_shape} after {self.class_tokens} class tokens. Received: {queries.shape=}. "
                    "`positions` are those of fewer tokens.",
                )
            return
        if not isinstance(positions, (list, tuple)):
            raise ArgTypeError(
                "positions",
                f"must be a list of {axes}, one per axis of the grid of layer '{self.name}'. "
                f"Received: {type(positions).__name__}.",
            )
        for values, size in zip(per_axis(positions, axes, "positions"), self.grid_shape, strict=True):
            check_positions(values, queries.shape[0], None if length is None else length - self.class_tokens)
            check_integers(values, self.name)
            check_values_reach(values, None, 1 - OUT_OF_REACH, OUT_OF_REACH, self.name)
            seen = visible(values)
            if (
                seen is not None
                and seen.size
                and (split_columns := int(np.ptp(seen.astype(np.int64), axis=-1).max())) >= size
            ):
                raise ArgValueError(
                    "positions",
                    f"must be less than {size} apart along an axis of {size} places in layer "
                    f"'{self.name}'. Received: positions that are {split_columns} apart.",
                )


@at_trace_time
def _tensor_of_grid(grid_shape: tuple[int, ...], class_tokens: int) -> Any:
    return _rows_of_grid(grid_shape, class_tokens).tensor()


@lru_cache(maxsize=16)
def _rows_of_grid(grid_shape: tuple[int, ...], class_tokens: int) -> Table:
    """Returns the row of each pair of tokens of a whole grid, `(1, tokens, tokens)`; layers of one shape share it."""
    spans = tuple(2 * size - 1 for size in grid_shape)
    places = np.indices(grid_shape).reshape(len(grid_shape), -1)
    split_columns = [each[:, np.newaxis] - each + size - 1 for each, size in zip(places, grid_shape, strict=True)]
    tokens, first_of_class = class_tokens + places.shape[1], math.prod(spans)
    rows = np.full((1, tokens, tokens), first_of_class + 2, np.int32)
    if class_tokens:
        rows[:, 0, 1:], rows[:, 1:, 0] = first_of_class, first_of_class + 1
    rows[:, class_tokens:, class_tokens:] = np.ravel_multi_index(split_columns, spans)
    return Table(rows)
