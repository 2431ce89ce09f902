"""tf2onnx handlers for the operators that it lacks or gets wrong, one family a module.

Importing a module registers its handlers. They are valid from opset 15, the lowest exported to, unless they say
otherwise.
"""

import importlib

_FAMILIES = (
    "angles",
    "arrays",
    "bitwise",
    "colors",
    "complex_numbers",
    "contractions",
    "convolutions",
    "counting",
    "ctc",
    "division",
    "exponentials",
    "lstm_gru_rnn",
    "one_hot",
    "resizing",
    "searching",
    "segments",
    "special_functions",
    "spectra",
    "where",
)


def register_handlers() -> None:
    """Registers the handlers with tf2onnx. A second call changes nothing."""
    for family in _FAMILIES:
        importlib.import_module(f"keras_pe.export.onnx.handlers.{family}")
