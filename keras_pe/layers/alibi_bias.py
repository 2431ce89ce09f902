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

    The bias is symmetric, as in an encoder. In a decoder, the causal mask hides the keys after the query. Bloom and
    others add `slope * key's position` instead. The two biases differ by a constant in each row, so the softmax is
    equal. Distances are integers. The product is float32 and is cast to the compute dtype last, because bfloat16 cannot
    represent 257.

    Args:
        num_heads: Number of heads.
        rule: Slopes for a number of heads that is not a power of two: "press", "mpt" or "paper", as in `alibi_slopes`.
        bias_max: Exponent of the last slope, `alibi_bias_max` in MPT and keras-hub.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        queries: `(batch, length, ...)`; only the length is read.
        keys: `(batch, length of keys, ...)`, or None for those of the queries.
        positions: Integer positions of the queries, `(length,)` or `(batch, length)`; with padding, pass
            `positions_from_mask(mask)`. Without `keys`, the keys have these positions too.
        start_index: Position of the first query, for a decoder with a cache: an integer, or integers `(batch,)`.
        key_positions: Integer positions of the keys.

    Returns:
        `(1, num_heads, queries, keys)`, or `(batch, ...)` if the rows have different positions: the argument `bias` of
        `keras.ops.dot_product_attention`. `keras.layers.MultiHeadAttention` lacks such an argument.

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
