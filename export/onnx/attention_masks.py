"""Masked attention and masked softmax with additive masks, which are made once and shared by all layers.

Keras' own operations select among all scores, once or twice for each layer.
"""

from collections.abc import Callable
from typing import Any

MASKED = -0.7 * 3.38953e38  # Keras' constant: adding a score below 1e31 rounds to it, so a sum equals a selection


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
    """Replaces `keras.ops.dot_product_attention`, with an additive mask."""
    import keras

    tensors = [keras.ops.convert_to_tensor(tensor) for tensor in (query, key, value)]
    is_plain = mask is None and not is_causal
    if is_plain or any(tensor.dtype != "float32" or len(tensor.shape) != 4 for tensor in tensors):
        return usual(query, key, value, bias, mask, scale, is_causal, **others)
    if is_causal:
        rows, columns = (keras.ops.shape(each)[1] for each in tensors[:2])
        mask = seen_so_far(rows, columns) if mask is None else keras.ops.logical_and(mask, seen_so_far(rows, columns))
    total = _as_sum(mask)
    if bias is not None:
        total = keras.ops.convert_to_tensor(bias, "float32") + total
    return usual(*tensors, total, None, scale, False, **others)


def seen_so_far(rows: Any, columns: Any) -> Any:
    """Returns the causal mask, `(rows, columns)`: True if the column is not after the row."""
    import tensorflow as tf

    return tf.range(columns)[tf.newaxis] <= tf.range(rows)[:, tf.newaxis]


def causal_mask(usual: Callable[..., Any], query: Any, value: Any = None) -> Any:
    """Replaces the causal mask of an attention layer, which Keras computes with two cumulative sums."""
    import keras

    lengths = [keras.ops.shape(query if each is None else each)[1] for each in (query, value)]
    return seen_so_far(*lengths)[None]


def _as_sum(mask: Any) -> Any:
    """Returns the additive mask: 0 if the mask is True, otherwise `MASKED`."""
    import tensorflow as tf

    return tf.where(mask, tf.constant(0.0), tf.constant(MASKED, "float32"))


def masked_softmax(layer: Any, usual: Callable[..., Any], inputs: Any, mask: Any = None) -> Any:
    """Replaces a `Softmax` layer, with an additive mask. The result of a row without any unmasked entry is 0.

    Keras selects twice among all scores. A mask that broadcasts is converted to numbers once for all layers instead.
    """
    import keras

    scores = keras.ops.convert_to_tensor(inputs)
    axes = [layer.axis] if isinstance(layer.axis, int) else layer.axis
    if mask is None or scores.dtype != "float32" or len(axes) > 1 or not _is_shared(mask, scores):
        return usual(inputs, mask)
    mask = keras.ops.convert_to_tensor(mask)
    seen = mask if mask.dtype == "bool" else mask > keras.ops.cast(0.5, mask.dtype)
    sees = keras.ops.cast(keras.ops.any(seen, axes[0], keepdims=True), "float32")
    return keras.ops.softmax(scores + _as_sum(seen), axes[0]) * sees


def _is_shared(mask: Any, scores: Any) -> bool:
    """Whether a mask is known to have fewer entries than the scores."""
    if None in (scores.shape.rank, mask.shape.rank):
        return False
    shape = (*(1,) * (len(scores.shape) - len(mask.shape)), *mask.shape)
    return any(size == 1 and other != 1 for size, other in zip(shape, scores.shape, strict=True))
