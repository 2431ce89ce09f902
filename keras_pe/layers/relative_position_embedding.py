"""The relative embedding of Shaw and Music Transformer: a trained vector for each distance."""

from typing import Any

import keras
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.base import check_count
from keras_pe.layers.call_arguments import Shape, check_inputs_dtype
from keras_pe.layers.relative_base import RelativeLayer
from keras_pe.rotations.lookup import take_from_each


@keras.saving.register_keras_serializable(package="keras_pe")
class RelativePositionEmbedding(RelativeLayer):
    """Returns the products of each query with a trained vector for its distance to each key.

    Distances are clipped to `max_distance`. The layer multiplies each query by all vectors once, and then selects the
    products by distance. It forms no array of `(queries, keys, channels)`. If no distance is clipped, the skewing of
    Music Transformer returns the same numbers.

    Args:
        num_heads: Number of heads.
        max_distance: Distance from which all farther keys share a vector.
        share_heads: Whether the heads share their vectors (Shaw, tensor2tensor), or each has its own.
        scale: Factor of the products: None for `channels ** -0.5`, the factor of `keras.ops.dot_product_attention` for
            queries and keys.
        initializer: Initial values of the vectors.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        queries: `(batch, length, num_heads, channels)`. The other arguments are those of `AlibiBias`.

    Returns:
        `(batch, num_heads, queries, keys)`, a `bias` of `keras.ops.dot_product_attention`.

    Source:
        Shaw et al., arXiv 1803.02155, equation 5; Huang et al., "Music Transformer", arXiv 1809.04281; tensor2tensor
        1.15.7, layers/common_attention.py, `dot_product_attention_relative`.

    >>> queries = keras.ops.zeros((2, 5, 4, 16))
    >>> tuple(RelativePositionEmbedding(4, max_distance=8)(queries).shape)  # batch, heads, queries, keys
    (2, 4, 5, 5)
    """

    def __init__(
        self,
        num_heads: int,
        max_distance: int,
        *,
        share_heads: bool = True,
        scale: float | None = None,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads=num_heads, **kwargs)
        self.max_distance = check_count("max_distance", max_distance)
        self.share_heads, self.scale = share_heads, scale
        self.initializer = keras.initializers.get(initializer)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "share_heads": self.share_heads,
            "scale": self.scale,
            "initializer": keras.initializers.serialize(self.initializer),
        }

    def build(self, queries_shape: Shape) -> None:
        if len(queries_shape) != 4 or queries_shape[2] != self.num_heads or not queries_shape[3]:
            raise ArgValueError(
                "queries",
                f"must have shape (batch, length, {self.num_heads}, channels). "
                f"Received: queries.shape={tuple(queries_shape)}.",
            )
        self._channels = int(queries_shape[3])
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={2: self.num_heads, 3: self._channels})
        rows = (2 * self.max_distance + 1, self._channels)
        shape = rows if self.share_heads else (self.num_heads, *rows)
        self._table = self.add_weight(name="embeddings", shape=shape, initializer=self.initializer)

    def _batch(self, queries_shape: Shape, positions_batch: int | None) -> int | None:
        return queries_shape[0]

    def _check_call(self, queries: Any, *others: Any) -> None:
        super()._check_call(queries, *others)
        check_inputs_dtype(queries.dtype, "queries")

    def _bias(self, distances: Any, queries: Any) -> Any:
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        table = ops.cast(self._table, dtype)
        scale = self._channels**-0.5 if self.scale is None else self.scale
        heads_first = ops.transpose(ops.cast(queries, dtype) * scale, (0, 2, 1, 3))
        products = ops.matmul(heads_first, ops.swapaxes(table, -1, -2))
        rows = ops.clip(distances, -self.max_distance, self.max_distance) + self.max_distance
        batch, heads, length, _ = ops.shape(products)
        rows = ops.broadcast_to(ops.expand_dims(rows, 1), (batch, heads, length, ops.shape(rows)[-1]))
        return take_from_each(products, rows)
