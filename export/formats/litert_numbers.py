"""Numbers of a LiteRT file within the ranges of devices: indices in int32, masks in the range of float16."""

from typing import Any

import numpy as np

from keras_pe.export.formats.litert_editor import Editor

_LOWEST = float(np.finfo(np.float16).min)
_MASKED = -3e4  # Keras masks with this number in float16

_OF_INDICES = {
    *("ADD", "CAST", "CONCATENATION", "EQUAL", "GATHER", "GATHER_ND", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
    *("MAXIMUM", "MINIMUM", "NOT_EQUAL", "ONE_HOT", "RESHAPE", "SELECT", "SELECT_V2", "SLICE", "STRIDED_SLICE", "SUB"),
    "TRANSPOSE",
}
"""Operators that compute and read indices. None of them makes a number that is far larger than its operands."""


def narrow_indices(editor: Editor, graph: Any) -> None:
    """Makes the int64 tensors of a subgraph int32, if all of them are indices or compared with constants."""
    from ai_edge_litert import schema_py_generated as schema

    ends = {int(number) for number in (*graph.inputs, *graph.outputs)}
    wide = {int(number) for operator in graph.operators for number in operator.outputs}
    wide = {number for number in wide if editor.dtype(number) == "int64"}
    users = [each for each in graph.operators if wide & {int(number) for number in (*each.inputs, *each.outputs)}]
    stored = [
        (operator, place, values)
        for operator in users
        for place, number in enumerate(operator.inputs)
        if number >= 0 and (values := editor.values(int(number))) is not None and values.dtype == np.int64
    ]
    most = np.iinfo(np.int32).max
    if not wide or wide & ends or any(editor.kind(each) not in _OF_INDICES for each in users):
        return
    if any((np.abs(values) > most // 2).any() for _, _, values in stored):
        return
    for number in wide:
        graph.tensors[number].type = schema.TensorType.INT32
    for operator, place, values in stored:
        operator.inputs = [*operator.inputs]
        operator.inputs[place] = editor.constant(values.astype(np.int32), int(operator.inputs[place]))
    for operator in users:
        if editor.kind(operator) == "CAST":
            operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.NONE, None


def limit_masks(editor: Editor, graph: Any) -> None:
    """Replaces the large negative constants that mask the input of a SOFTMAX: float16 has no such numbers."""
    makers = {int(number): operator for operator in graph.operators for number in operator.outputs}
    through = {"RESHAPE": (0,), "SELECT": (1, 2), "SELECT_V2": (1, 2), "ADD": (0, 1), "SUB": (0, 1), "MUL": (0, 1)}

    def limit(number: int, depth: int) -> None:
        operator = makers.get(number)
        if operator is None or not depth:
            return
        for place in through.get(editor.kind(operator), ()):
            source = int(operator.inputs[place])
            values = editor.values(source)
            if values is None:
                limit(source, depth - 1)
            elif values.dtype == np.float32 and (values < _LOWEST).any():
                limited = np.where(values < _LOWEST, np.float32(_MASKED), values).astype(np.float32)
                operator.inputs = [*operator.inputs]
                operator.inputs[place] = editor.constant(limited, source)

    for operator in [each for each in graph.operators if editor.kind(each) == "SOFTMAX"]:
        limit(int(operator.inputs[0]), depth=4)
