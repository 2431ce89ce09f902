"""What was traced as a call of one ONNX operator, see `operator_calls`."""

import json
from collections.abc import Callable
from typing import Any

from keras_pe.export.onnx.handlers import lstm_gru_rnn, normalizations
from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


def _rotary_embedding(ctx: Replacement, attributes: dict[str, Any]) -> None:
    (rotated,) = ctx.emit_later("RotaryEmbedding", *ctx.inputs, **attributes)
    ctx.finish(rotated)


FORMS: dict[str, Callable[[Replacement, dict[str, Any]], None]] = {
    "LSTM": lstm_gru_rnn.lstm,
    "GRU": lstm_gru_rnn.gru,
    "RNN": lstm_gru_rnn.rnn,
    "LayerNormalization": normalizations.layer_normalization,
    "RMSNormalization": normalizations.rms_normalization,
    "Gelu": normalizations.gelu,
    "HardSwish": normalizations.hard_swish,
    "RotaryEmbedding": _rotary_embedding,
}


@handler("PyFuncStateless")
def named_operator(ctx: Replacement) -> None:
    """Writes the operator, or the form of it that runs fastest."""
    try:
        operator, attributes = json.loads(ctx.attribute("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model's own
        raise ValueError("Only Python runs its code.") from None
    FORMS[operator](ctx, attributes)
