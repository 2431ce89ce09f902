"""Rotations of pairs of channels, traced as one call of the operator that the standard has for them."""

from collections.abc import Callable
from typing import Any

from keras_pe.export.onnx.operator_calls import call_operator, differentiable


def rotary_embedding(usual: Callable[..., Any], x: Any, sin: Any, cos: Any, layout: str) -> Any:
    """Returns what `turn_pairs` does; where the operator's heads or pairs are others, in the usual operators."""
    if not _is_known(x, sin, cos, layout):
        return usual(x, sin, cos, layout)
    return differentiable(
        lambda *tensors: _call(layout, *tensors), lambda *tensors: usual(*tensors, layout), x, sin, cos
    )


def _is_known(x: Any, sin: Any, cos: Any, layout: str) -> bool:
    """Whether the heads, which share their angles, are the second axis or the third of four, and the pairs are its."""
    if layout not in ("halves", "interleaved") or any(each.dtype != "float32" for each in (x, sin, cos)):
        return False
    shape = (*(1,) * (4 - len(sin.shape)), *sin.shape)  # the leading axes that broadcasting would give it
    is_shaped = len(x.shape) == len(shape) == 4 and shape[0] in (1, x.shape[0])
    return is_shaped and (_has_heads_third(x, sin) or shape[1] == 1)


def _has_heads_third(x: Any, sin: Any) -> bool:
    return sin.shape[-2] == 1 and x.shape[2] is not None


def _call(layout: str, x: Any, sin: Any, cos: Any) -> Any:
    import tensorflow as tf

    heads = 2 if _has_heads_third(x, sin) else 1
    batch, length, width = tf.shape(x)[0], tf.shape(x)[3 - heads], sin.shape[-1]
    # The operator takes one sine for a pair: that of its second channel.
    of_second = slice(1, None, 2) if layout == "interleaved" else slice(width // 2, None)
    without_heads = (tf.squeeze(each, heads - 4) if len(each.shape) >= 4 - heads else each for each in (cos, sin))
    angles = [tf.broadcast_to(each[..., of_second], (batch, length, width // 2)) for each in without_heads]
    rotated = width if width < x.shape[-1] else 0
    attributes = {"interleaved": int(layout == "interleaved"), "rotary_embedding_dim": rotated}
    if heads == 1:
        return call_operator("RotaryEmbedding", [x, *angles], [x.shape], attributes)[0]
    # With the heads side by side as a projection returns them, nothing is transposed.
    flat = tf.reshape(x, (batch, length, x.shape[2] * x.shape[3]))
    attributes["num_heads"] = x.shape[2]
    return tf.reshape(call_operator("RotaryEmbedding", [flat, *angles], [flat.shape], attributes)[0], tf.shape(x))
