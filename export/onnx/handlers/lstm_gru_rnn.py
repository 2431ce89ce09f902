"""LSTM, GRU and RNN, as recurrent layers are traced."""

import functools
from typing import Any

from keras_pe.export.onnx.handlers.replacement import Replacement


def _recurrence(operator: str, ctx: Replacement, attributes: dict[str, Any]) -> None:
    """One operator, its steps first instead of the batch, and with an axis for its one direction."""
    sequences, weights, states = ctx.inputs[0], ctx.inputs[1:4], ctx.inputs[4:]
    inputs = [ctx.emit("Transpose", sequences, perm=(1, 0, 2)), *weights, ""]  # no lengths
    inputs += [ctx.emit("Unsqueeze", state, ctx.integers(0)) for state in states]
    outputs, *finals = ctx.emit_all(operator, *inputs, outputs=1 + len(states), **attributes)
    steps = ctx.emit("Transpose", ctx.emit("Squeeze", outputs, ctx.integers(1)), perm=(1, 0, 2))
    ctx.finish(steps, *(ctx.emit("Squeeze", final, ctx.integers(0)) for final in finals))


lstm, gru, rnn = (functools.partial(_recurrence, operator) for operator in ("LSTM", "GRU", "RNN"))
