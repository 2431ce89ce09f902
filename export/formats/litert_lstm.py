"""The operator UNIDIRECTIONAL_SEQUENCE_LSTM in place of a traced call.

The operator keeps its states in variables, which outlive a run, so the file sets the variables before each run.
"""

from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.graph.litert_recurrences import LSTM_CALL

_ABSENT = -1  # the number of an optional input that an operator does not have


def write_lstm(editor: Editor, operator: Any, output: int) -> bool:
    """Writes the operator. The gates of Keras and LiteRT have one order: input, forget, cell, output."""
    from ai_edge_litert import schema_py_generated as schema

    if editor.custom_name(operator) != LSTM_CALL:
        return False
    rows, hidden, cell, *weights = map(int, operator.inputs)
    states = [_set_variable(editor, state, weights[0]) for state in (hidden, cell)]
    inputs = [rows, *weights[:8], *[_ABSENT] * 3, *weights[8:], _ABSENT, _ABSENT, *states, *[_ABSENT] * 4]
    options = {"fusedActivationFunction": schema.ActivationFunctionType.TANH}
    editor.add("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], "UnidirectionalSequenceLSTMOptions", **options)
    return True


def _set_variable(editor: Editor, state: int, weight: int) -> int:
    """Returns a variable that each run sets to a state, by a sum with zero. A weight has the path of the layer."""
    variable = editor.variable(editor.shape(state), weight)
    zero = editor.constant(np.zeros((), np.float32), weight)
    editor.add("ADD", [state, zero], [variable], "AddOptions")
    return variable
