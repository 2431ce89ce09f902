"""Numbers of a LiteRT file in the types and ranges of devices: indices in int32, outputs in float32, limited masks."""

from collections import Counter
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor

_LOWEST = float(np.finfo(np.float16).min)
_MASKED = -3e4  # Keras masks with this number in float16

SHORT_FLOATS = ("float16", "bfloat16")

_MOVES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
"""Operators that only reshape their first operand."""

_OF_INDICES = {
    *("ADD", "BROADCAST_TO", "CAST", "CONCATENATION", "EQUAL", "GATHER", "GATHER_ND", "GREATER", "GREATER_EQUAL"),
    *("LESS", "LESS_EQUAL", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "ONE_HOT", "RESHAPE", "SELECT", "SELECT_V2", "SLICE"),
    *("STRIDED_SLICE", "SUB", "TRANSPOSE"),
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


def widen_outputs(editor: Editor, model: Any, graph: Any) -> None:
    """Makes the outputs of 16 bits float32. A final cast to 16 bits is left out, also before a reshape."""
    from ai_edge_litert import schema_py_generated as schema

    makers = {int(number): operator for operator in graph.operators for number in operator.outputs}
    reads = Counter(int(number) for operator in graph.operators for number in operator.inputs)
    wide, plain = dict[int, int](), dict[int, int]()
    for number in dict.fromkeys(map(int, graph.outputs)):
        if editor.dtype(number) not in SHORT_FLOATS:
            continue
        path = [number]
        while path[-1] in makers and editor.kind(makers[path[-1]]) in _MOVES:
            path.append(int(makers[path[-1]].inputs[0]))
        maker = makers.get(path[-1])
        is_read_once = not reads[number] and all(reads[each] == 1 for each in path[1:])
        if maker is not None and is_read_once and _is_cast_of_float32(editor, maker):
            plain[path[-1]] = int(maker.inputs[0])
            for each in path:
                graph.tensors[each].type = schema.TensorType.FLOAT32
        else:
            wide[number] = editor.tensor(editor.shape(number), number, dtype="float32")
    for operator in graph.operators:
        if (number := int(operator.outputs[0])) in plain:
            editor.reshape(plain[number], editor.shape(number), number)
        else:
            editor.operators.append(operator)
    for number, output in wide.items():
        editor.add("CAST", [number], [output], "CastOptions")
    graph.operators, editor.operators = editor.operators, []
    graph.outputs = [wide.get(int(number), int(number)) for number in graph.outputs]
    for signature in model.signatureDefs or ():
        for output in signature.outputs if model.subgraphs[signature.subgraphIndex] is graph else ():
            output.tensorIndex = wide.get(int(output.tensorIndex), int(output.tensorIndex))


def _is_cast_of_float32(editor: Editor, operator: Any) -> bool:
    return editor.kind(operator) == "CAST" and editor.dtype(int(operator.inputs[0])) == "float32"


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
