"""Masked attention and the softmax of masked scores with masks that are added: made once, and shared by all layers.

Keras selects among all scores, once or twice a layer.
"""

from collections.abc import Callable
from typing import Any

MASKED = -0.7 * 3.38953e38  # as Keras has it: any score below 1e31 is lost in it, so the sum is what a choice returns


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
    """Returns what `keras.ops.dot_product_attention` does, with masks that are added."""
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
    """Returns where no column comes later than the row, `(rows, columns)`."""
    import tensorflow as tf

    return tf.range(columns)[tf.newaxis] <= tf.range(rows)[:, tf.newaxis]


def causal_mask(usual: Callable[..., Any], query: Any, value: Any = None) -> Any:
    """Returns the mask of an attention layer, which Keras makes by two cumulative sums."""
    import keras

    lengths = [keras.ops.shape(query if each is None else each)[1] for each in (query, value)]
    return seen_so_far(*lengths)[None]


def _as_sum(mask: Any) -> Any:
    """Returns what is added to the scores: nothing where a mask is true."""
    import tensorflow as tf

    return tf.where(mask, tf.constant(0.0), tf.constant(MASKED, "float32"))


def masked_softmax(layer: Any, usual: Callable[..., Any], inputs: Any, mask: Any = None) -> Any:
    """Returns what a `Softmax` does, with a mask that is added, and results of a row that may see nothing set to zero.

    Keras selects twice among all scores. A mask that many of them share is made into numbers once, for all layers.
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
    """Whether a mask has fewer entries than the scores, as far as it is known."""
    if None in (scores.shape.rank, mask.shape.rank):
        return False
    shape = (*(1,) * (len(scores.shape) - len(mask.shape)), *mask.shape)
    return any(size == 1 and other != 1 for size, other in zip(shape, scores.shape, strict=True))
