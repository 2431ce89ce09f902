"""LSTM, GRU and RNN, as recurrent layers are traced."""

import json

from keras_pe.export.onnx.handlers.marked_operators import RECURRENCE
from keras_pe.export.onnx.handlers.registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler(RECURRENCE)
def recurrence(ctx: Replacement) -> None:
    """One operator, its steps first instead of the batch, and with an axis for its one direction."""
    try:
        operator, attributes = json.loads(ctx.attribute("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model's own
        raise ValueError("Only Python runs its code.") from None
    sequences, weights, states = ctx.inputs[0], ctx.inputs[1:4], ctx.inputs[4:]
    inputs = [ctx.emit("Transpose", sequences, perm=(1, 0, 2)), *weights, ""]  # no lengths
    inputs += [ctx.emit("Unsqueeze", state, ctx.integers(0)) for state in states]
    outputs, *finals = ctx.emit_all(operator, *inputs, outputs=1 + len(states), **attributes)
    steps = ctx.emit("Transpose", ctx.emit("Squeeze", outputs, ctx.integers(1)), perm=(1, 0, 2))
    ctx.finish(steps, *(ctx.emit("Squeeze", final, ctx.integers(0)) for final in finals))
