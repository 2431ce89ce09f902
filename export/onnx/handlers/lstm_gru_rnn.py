"""LSTM, GRU and RNN, as recurrent layers are traced."""

import json

from keras_pe.export.onnx.handlers.replacement import Replacement, handler
from keras_pe.export.onnx.recurrences import CALL


@handler(CALL)
def recurrence(at: Replacement) -> None:
    """One operator, its steps first instead of the batch, and with an axis for its one direction."""
    try:
        operator, attributes = json.loads(at.node.get_attr_str("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model's own
        raise ValueError("Only Python runs its code.") from None
    sequences, weights, states = at.inputs[0], at.inputs[1:4], at.inputs[4:]
    inputs = [at.emit("Transpose", sequences, perm=(1, 0, 2)), *weights, ""]  # no lengths
    inputs += [at.emit("Unsqueeze", state, at.integers(0)) for state in states]
    outputs, *finals = at.emit_all(operator, *inputs, outputs=1 + len(states), **attributes)
    steps = at.emit("Transpose", at.emit("Squeeze", outputs, at.integers(1)), perm=(1, 0, 2))
    at.finish(steps, *(at.emit("Squeeze", final, at.integers(0)) for final in finals))
