"""Attention with linear biases (ALiBi): a penalty for distance in place of an encoding."""

from typing import Any

import keras
from keras import ops

from keras_pe.layers.relative_base import RelativeLayer
from keras_pe.rotations.lookup import Table
from keras_pe.signal.distances import SlopeRule, alibi_slopes


@keras.saving.register_keras_serializable(package="keras_pe")
class AlibiBias(RelativeLayer):
    """Returns the bias `-slope * |query's position - key's position|`, with a slope for each head (ALiBi).

    It is the same to both sides, for an encoder; a decoder's causal mask leaves the past of it. Bloom and others add
    `slope * key's position` instead, which differs by a constant in each row and so not after the softmax. Distances
    are whole numbers and the product is float32, cast to the compute dtype last: bfloat16 has no number for 257.

    Args:
        num_heads: Number of heads.
        rule: Slopes for another number than a power of two: "press", "mpt" or "paper", as in `alibi_slopes`.
        bias_max: Exponent of the last slope, `alibi_bias_max` in MPT and keras-hub.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        queries: `(batch, length, ...)`; only their length is looked at.
        keys: `(batch, length of keys, ...)`, or None for those of the queries.
        positions: Integer positions of the queries, `(length,)` or `(batch, length)`; `positions_from_mask(mask)` where
            there is padding. They are those of the keys as well where no keys are given.
        start_index: Position of the first query, as of a decoder with a cache: an integer, or `(batch,)` of them.
        key_positions: Integer positions of the keys.

    Returns:
        `(1, num_heads, queries, keys)`, or `(batch, ...)` where positions differ: the `bias` of
        `keras.ops.dot_product_attention`. (`keras.layers.MultiHeadAttention` has no argument for one.)

    Source:
        Press et al., "Train Short, Test Long", arXiv 2108.12409.

    >>> import numpy as np
    >>> keras.ops.convert_to_numpy(AlibiBias(2)(np.zeros((1, 3, 8))))[0, 0]
    array([[-0.    , -0.0625, -0.125 ],
           [-0.0625, -0.    , -0.0625],
           [-0.125 , -0.0625, -0.    ]], dtype=float32)
    """

    def __init__(self, num_heads: int, *, rule: SlopeRule = "press", bias_max: float = 8.0, **kwargs: Any) -> None:
        super().__init__(num_heads=num_heads, **kwargs)
        self.rule, self.bias_max = rule, float(bias_max)
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        self._slopes = Table(alibi_slopes(num_heads, rule, self.bias_max).astype(dtype).reshape(1, num_heads, 1, 1))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {**super().get_config(), "rule": self.rule, "bias_max": self.bias_max}

    def _bias(self, distances: Any, queries: Any) -> Any:
        slopes = self._slopes.tensor()
        return -slopes * ops.cast(ops.expand_dims(ops.abs(distances), 1), slopes.dtype)
