"""Masked attention, traced with the mask as a sum: it is made once for all layers that share it.

Keras makes a mask of the scores' full size in each layer, and selects by it. What a sum takes need only broadcast, and
ONNX Runtime adds faster than it selects.
"""

from collections.abc import Callable
from typing import Any

_MASKED = -0.7 * 3.38953e38  # as Keras has it: any score below 1e31 is lost in it, so the sum is what a choice returns


def attention(
    usual: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
    **others: Any,
) -> Any:
    """Returns what `keras.ops.dot_product_attention` does, in operators that take less time."""
    import keras

    tensors = [keras.ops.convert_to_tensor(tensor) for tensor in (query, key, value)]
    is_masked = mask is not None or is_causal
    if not is_masked or any(tensor.dtype != "float32" or len(tensor.shape) != 4 for tensor in tensors):
        return usual(query, key, value, bias, mask, scale, is_causal, **others)
    summed = _as_sum(_with_causal(mask, tensors) if is_causal else mask)
    if bias is not None:
        summed = keras.ops.convert_to_tensor(bias, "float32") + summed
    return usual(*tensors, summed, None, scale, False, **others)


def _with_causal(mask: Any, tensors: list[Any]) -> Any:
    """Returns the mask without what comes later than a query."""
    import tensorflow as tf

    rows, columns = tf.shape(tensors[0])[1], tf.shape(tensors[1])[1]
    causal = tf.range(columns)[tf.newaxis] <= tf.range(rows)[:, tf.newaxis]
    return causal if mask is None else tf.logical_and(mask, causal)


def _as_sum(mask: Any) -> Any:
    """Returns what is added to the scores: nothing where a mask is true."""
    import tensorflow as tf

    return tf.where(mask, tf.constant(0.0), tf.constant(_MASKED, "float32"))
