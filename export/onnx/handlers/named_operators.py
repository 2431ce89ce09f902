"""What was traced as a call of one ONNX operator, see `operator_calls`."""

import json
import math
from collections.abc import Callable
from typing import Any

from keras_pe.export.onnx.handlers import lstm_gru_rnn, normalizations
from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


def _rotary_embedding(ctx: Replacement, attributes: dict[str, Any]) -> None:
    (rotated,) = ctx.emit_later("RotaryEmbedding", *ctx.inputs, **attributes)
    ctx.finish(rotated)


def _attention(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """The operator, of heads that lie side by side: as a projection returns them, so that none is moved."""
    heads = [ctx.known_shape(tensor)[2:] for tensor in ctx.inputs[:3]]
    flat = [
        ctx.emit("Reshape", tensor, ctx.integers(0, 0, math.prod(each)))
        for tensor, each in zip(ctx.inputs[:3], heads, strict=True)
    ]
    (query, _), (pairs, _), (_, width) = heads
    attributes |= {"q_num_heads": query, "kv_num_heads": pairs}
    (result,) = ctx.emit_later("Attention", *flat, *ctx.inputs[3:], **attributes)
    ctx.finish(ctx.emit("Reshape", result, ctx.integers(0, 0, query, width)))


FORMS: dict[str, Callable[[Replacement, dict[str, Any]], None]] = {
    "LSTM": lstm_gru_rnn.lstm,
    "GRU": lstm_gru_rnn.gru,
    "RNN": lstm_gru_rnn.rnn,
    "LayerNormalization": normalizations.layer_normalization,
    "RMSNormalization": normalizations.rms_normalization,
    "Gelu": normalizations.gelu,
    "HardSwish": normalizations.hard_swish,
    "RotaryEmbedding": _rotary_embedding,
    "Attention": _attention,
}


@handler("PyFuncStateless")
def named_operator(ctx: Replacement) -> None:
    """Writes the operator, or the form of it that runs fastest."""
    try:
        operator, attributes = json.loads(ctx.attribute("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model's own
        raise ValueError("Only Python runs its code.") from None
    FORMS[operator](ctx, attributes)
