"""Shared parts of layers whose output depends on the distance between keys and queries."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.axis_positions import OUT_OF_REACH, resolve_positions
from keras_pe.layers.base import check_count
from keras_pe.layers.call_arguments import (
    Shape,
    by_name,
    check_before_conversion,
    check_integers,
    check_positions,
    check_range_reach,
    check_start,
    check_values_reach,
    read_variables,
)
from keras_pe.layers.traced_build import build_in_trace
from keras_pe.rotations.static_values import align_dtypes, count_up, dynamo_is_tracing, known_length, visible


class RelativeLayer(keras.layers.Layer):  # type: ignore[misc]
    """Base of the layers that return a bias for attention scores, `(batch or 1, heads, queries, keys)`.

    A subclass gives the bias of distances (`_bias`).
    """

    _call_arguments = ("keys", "positions", "start_index", "key_positions")

    def __init__(self, *, num_heads: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_heads = check_count("num_heads", num_heads)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads}

    def _bias(self, distances: Any, queries: Any) -> Any:
        """Returns the bias of `(batch or 1, queries, keys)` distances, a key's position minus the query's."""
        raise NotImplementedError

    def __call__(self, queries: Any, *others: Any, **named: Any) -> Any:
        named = by_name(self._call_arguments, others, named, self.name)
        check_before_conversion(queries, named.get("positions"), named.get("start_index"), self.name)
        check_before_conversion(queries, named.get("key_positions"), None, self.name)
        if dynamo_is_tracing():
            build_in_trace(self, queries, (2, 3))
        given = {name: value for name, value in named.items() if value is not None}
        return super().__call__(queries, **given)

    def call(
        self, queries: Any, keys: Any = None, positions: Any = None, start_index: Any = None, key_positions: Any = None
    ) -> Any:
        positions, start_index, key_positions = (read_variables(x) for x in (positions, start_index, key_positions))
        self._check_call(queries, queries if keys is None else keys, positions, start_index, key_positions)
        of_queries = of_keys = self._positions(positions, start_index, ops.shape(queries)[1])
        unseen = [
            each for each in (positions, start_index, key_positions) if each is not None and visible(each) is None
        ]
        if keys is not None or key_positions is not None:
            of_keys = self._positions(key_positions, None, ops.shape(queries if keys is None else keys)[1])
        bias = self._bias(map_pairs(ops.subtract, of_keys, of_queries), queries)
        if unseen:
            is_far = map_pairs(ops.logical_or, *(ops.abs(each) >= OUT_OF_REACH for each in (of_keys, of_queries)))
            bias = ops.where(ops.expand_dims(is_far, 1), ops.cast(np.nan, bias.dtype), bias)
        return ops.cast(bias, self.compute_dtype)

    def compute_output_spec(
        self, queries: Any, keys: Any = None, positions: Any = None, start_index: Any = None, key_positions: Any = None
    ) -> Any:
        """Returns shape and dtype of the bias."""
        self._check_call(queries, queries if keys is None else keys, positions, start_index, key_positions)
        others = (getattr(each, "shape", None) for each in (keys, positions, start_index, key_positions))
        return keras.KerasTensor(self.compute_output_shape(queries.shape, *others), self.compute_dtype)

    def compute_output_shape(
        self,
        queries_shape: Shape,
        keys_shape: Shape | None = None,
        positions_shape: Shape | None = None,
        start_index_shape: Shape | None = None,
        key_positions_shape: Shape | None = None,
    ) -> Shape:
        """Returns the shape of the bias."""
        columns = [start_index_shape or (), *((each or ())[:-1] for each in (positions_shape, key_positions_shape))]
        batches = [size for column in columns for size in column if size != 1]
        batch = self._batch(queries_shape, batches[0] if batches else 1)
        return batch, self.num_heads, queries_shape[1], (keys_shape or queries_shape)[1]

    def _batch(self, queries_shape: Shape, positions_batch: int | None) -> int | None:
        """Returns for how many examples there is a bias, by the queries and by how many have positions of their own."""
        return positions_batch

    def _positions(self, values: Any, start: Any, length: Any) -> Any:
        resolved = resolve_positions(values, start, length, subtracted=True)
        if resolved is None:
            return count_up(length)
        return resolved.start + count_up(length) if resolved.whole is None else resolved.whole

    def _check_call(self, queries: Any, keys: Any, positions: Any, start_index: Any, key_positions: Any) -> None:
        check_examples("queries", queries)
        check_examples("keys", keys)
        reach = 1 - OUT_OF_REACH, OUT_OF_REACH
        if start_index is not None:
            check_start(start_index, queries.shape[0])
            if positions is None:
                check_range_reach(start_index, known_length(queries.shape[1]), *reach, self.name)
        for values, start, of in ((positions, start_index, queries), (key_positions, None, keys)):
            if values is not None:
                check_positions(values, of.shape[0], of.shape[1])
                check_integers(values, self.name)
                check_values_reach(values, start, *reach, self.name)


def map_pairs(function: Callable[[Any, Any], Any], of_keys: Any, of_queries: Any) -> Any:
    """Returns what a function makes of each query's and each key's value: `(batch or 1, queries, keys)`."""
    pairs = function(*align_dtypes(ops.expand_dims(of_keys, -2), ops.expand_dims(of_queries, -1)))
    return ops.expand_dims(pairs, 0) if len(pairs.shape) == 2 else pairs


def check_examples(name: str, examples: Any) -> None:
    """Raises unless an argument is a tensor of shape `(batch, length, ...)`."""
    if not hasattr(examples, "shape"):
        raise ArgTypeError(name, f"must be an array or a tensor. Received: a {type(examples).__name__}.")
    if len(examples.shape) < 2:
        shape = tuple(examples.shape)
        raise ArgValueError(name, f"must have shape (batch, length, ...). Received: {name}.shape={shape}.")
