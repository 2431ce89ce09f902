"""Attention as the fewest operators, as Keras' layers and operations name it, and the softmax of masked scores."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from keras_pe.export.model.watch.keras_internals import causal_mask, drops_scores, returns_scores, without_dropout
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.operator_calls import Unfused, call_operator, differentiable

OPERATOR = "Attention"
MASKED = -0.7 * 3.38953e38  # as Keras has it: any score below 1e31 is lost in it, so the sum is what a choice returns


def attention(
    opset: int,
    unfused: Unfused,
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
    added = [each for each in (bias, mask) if each is not None]
    reason = _obstacle_to_attention(opset, tensors, added, scale, others)
    if reason:
        unfused.note(OPERATOR, reason)
    is_masked = mask is not None or is_causal
    if any(tensor.dtype != "float32" or len(tensor.shape) != 4 for tensor in tensors) or (reason and not is_masked):
        return usual(query, key, value, bias, mask, scale, is_causal, **others)
    total = None if bias is None else keras.ops.convert_to_tensor(bias, "float32")
    if is_masked:
        summed = _as_sum(_with_causal(mask, tensors) if is_causal else mask)
        total = summed if total is None else total + summed
    if reason:
        return usual(*tensors, total, None, scale, False, **others)

    def usually(query: Any, key: Any, value: Any, total: Any = None) -> Any:
        return usual(query, key, value, total, None, scale, False, **others)

    return differentiable(partial(call_attention, scale), usually, *tensors, *([] if total is None else [total]))


def _obstacle_to_attention(
    opset: int, tensors: list[Any], added: list[Any], scale: Any, others: dict[str, Any]
) -> str | None:
    """Returns why no operator computes it; None where one does."""
    if reason := obstacle_of_set(opset):
        return reason
    if any(tensor.dtype != "float32" for tensor in tensors):
        return f"it computes in {tensors[0].dtype.name}"
    if any(len(tensor.shape) != 4 or None in tensor.shape[2:] for tensor in tensors):
        return "its heads or their channels are not known"
    if any(len(each.shape) not in (2, 4) for each in added):
        return "its mask or bias has other axes"
    if reason := obstacle_of_scale(scale):
        return reason
    if others.get("attn_logits_soft_cap") is not None:
        return "its scores are capped, which runtimes do before or after the mask"
    return None


def obstacle_of_set(opset: int) -> str | None:
    """Returns why a file of this operator set has no operator for attention; None where it has."""
    first, last = opsets.WITH_ATTENTION[0], opsets.WITH_ATTENTION[-1]
    written = f"it is written at the operator sets {first} to {last}, not at {opset}"
    return None if opset in opsets.WITH_ATTENTION else written


def obstacle_of_scale(scale: Any) -> str | None:
    """Returns why the operator has no such scale; None where it has."""
    if not (scale is None or isinstance(scale, int | float)):
        return "its scale is computed"
    return "its scale is not above zero, which runtimes refuse" if scale is not None and scale <= 0 else None


def call_attention(scale: float | None, *tensors: Any) -> Any:
    """Returns the call of the operator.

    Args:
        scale: Of the scores; None for that of the channels.
        tensors: Queries, keys and values, `(batch, length, heads, channels)`, and what is added to the scores, if any.
    """
    import tensorflow as tf

    query, key, value, *added = tensors
    # ONNX Runtime takes a mask of as many rows and columns as the scores, and no fewer.
    sizes = [tf.shape(query)[1], tf.shape(key)[1]]
    full = [tf.broadcast_to(each, tf.concat([tf.shape(each)[:-2], sizes], 0)) for each in added]
    attributes = {} if scale is None else {"scale": float(scale)}
    shape = (*query.shape[:3], value.shape[3])
    return call_operator(OPERATOR, [query, key, value, *full], [shape], attributes)[0]


def attention_of_layer(
    kept: Callable[[str], contextlib.AbstractContextManager[None]],
    layer: Any,
    usual: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    training: Any = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    """Returns what a layer returns that drops nothing, but zeros, as one that drops does, for who may see nothing."""
    import keras

    scored = {"return_attention_scores": True} if return_attention_scores else {}
    reason = _obstacle_of_layer(layer, query, attention_mask, return_attention_scores)
    if reason:
        with kept(reason):
            return usual(query, key, value, attention_mask, training, use_causal_mask=use_causal_mask, **scored)
    if training or not drops_scores(layer):
        return usual(query, key, value, attention_mask, training, use_causal_mask=use_causal_mask)
    if attention_mask is not None and use_causal_mask:
        causal = causal_mask(layer, query, value)
        attention_mask = keras.ops.logical_and(keras.ops.cast(attention_mask, "bool"), causal)
    elif attention_mask is not None:
        attention_mask = _seen(attention_mask)
    is_causal = use_causal_mask and attention_mask is None
    with without_dropout(layer):
        output, scores = usual(query, key, value, attention_mask, training, use_causal_mask=is_causal)
    if attention_mask is not None:
        sees = keras.ops.any(attention_mask, axis=-1)[..., None, None]
        output = keras.ops.where(sees, output, 0.0)
    return output, scores


def _obstacle_of_layer(layer: Any, query: Any, mask: Any, is_asked_for_scores: bool) -> str | None:
    """Returns why a layer computes scores that others may see, or in another form; None where it does not."""
    if is_asked_for_scores or returns_scores(layer):
        return "its scores are returned"
    if layer.compute_dtype != "float32":
        return f"it computes in {layer.compute_dtype}"
    if len(query.shape) != 4 or (mask is not None and len(mask.shape) != 3):
        return "its queries or its mask have other axes"
    return None


def _with_causal(mask: Any, tensors: list[Any]) -> Any:
    """Returns the mask without what comes later than a query."""
    import tensorflow as tf

    rows, columns = tf.shape(tensors[0])[1], tf.shape(tensors[1])[1]
    causal = tf.range(columns)[tf.newaxis] <= tf.range(rows)[:, tf.newaxis]
    return causal if mask is None else tf.logical_and(mask, causal)


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
    if mask is None or scores.dtype != "float32" or not isinstance(layer.axis, int) or not _is_shared(mask, scores):
        return usual(inputs, mask)
    seen = _seen(mask)
    sees = keras.ops.cast(keras.ops.any(seen, layer.axis, keepdims=True), "float32")
    return keras.ops.softmax(scores + _as_sum(seen), layer.axis) * sees


def _seen(mask: Any) -> Any:
    """Returns where a `Softmax` keeps scores: of a mask of numbers where they are above 0.5, of integers above 0."""
    import keras

    mask = keras.ops.convert_to_tensor(mask)
    return mask if mask.dtype == "bool" else mask > keras.ops.cast(0.5, mask.dtype)


def _is_shared(mask: Any, scores: Any) -> bool:
    """Whether a mask has fewer entries than the scores, as far as it is known."""
    if None in (scores.shape.rank, mask.shape.rank):
        return False
    shape = (*(1,) * (len(scores.shape) - len(mask.shape)), *mask.shape)
    return any(size == 1 and other != 1 for size, other in zip(shape, scores.shape, strict=True))
