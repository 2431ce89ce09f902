"""The weights of recurrent layers as ONNX's LSTM, GRU and RNN take them: one row a unit, the gates in ONNX's order."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

OPERATORS = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "RNN"}

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (0, 1, 2), "RNN": (0,)}  # where Keras has ONNX's first, second, ...


def packed(cell: Any) -> Mapping[str, npt.NDArray[Any]]:
    """Returns the operator's W, R and B of a cell of `OPERATORS`, by the names of the cell's weights.

    Those are "kernel", "recurrent_kernel" and "bias". A bias that the cell has not is zero.
    """
    units, gates = cell.units, _GATES[OPERATORS[type(cell).__name__]]

    def rows(columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([columns[:, gate * units : (gate + 1) * units].T for gate in gates])

    kernel, recurrent = np.asarray(cell.kernel), np.asarray(cell.recurrent_kernel)
    biases = np.zeros((2, kernel.shape[1]), kernel.dtype)  # of the inputs, of the state
    if cell.bias is not None:
        bias = np.atleast_2d(np.asarray(cell.bias))
        biases[: len(bias)] = bias
    bias_rows = rows(biases).T.reshape(1, -1)
    return {"kernel": rows(kernel)[None], "recurrent_kernel": rows(recurrent)[None], "bias": bias_rows}
