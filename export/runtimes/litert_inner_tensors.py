"""Edits of a LiteRT file whose inner tensors become inputs, or inputs and outputs."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.artifacts.litert_file import (
    SIGNATURE,
    element_types,
    interface_order,
    operator_kind,
    pack_model,
    read_whole,
)
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype


def computed_tensors(graph: Any) -> dict[str, int]:
    """Returns the numbers of the tensors that operators of a subgraph compute, by unique names in order."""
    found = dict[str, int]()
    for number in (int(number) for operator in graph.operators for number in operator.outputs):
        name = (graph.tensors[number].name or b"").decode()
        found[f"{name};{number}" if name in found else name] = number
    return found


def make_input(graph: Any, number: int) -> None:
    """Makes a computed tensor an input of a subgraph; its producer then writes to an unused tensor."""
    unread = copy.copy(graph.tensors[number])
    unread.name = (unread.name or b"") + b"/computed"
    graph.tensors.append(unread)
    for operator in graph.operators:
        operator.outputs = [len(graph.tensors) - 1 if each == number else each for each in operator.outputs]
    graph.inputs = [*graph.inputs, number]


@dataclass(frozen=True)
class SeparateOperator:
    """An operator of a file of `separate_operators`.

    Attributes:
        kind: The type, such as "CONV_2D".
        path: The path of the operator in the traced graph.
        outputs: The outputs in the new file, by the names of the tensors in the old file.
    """

    kind: str
    path: str
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class SeparateOperators:
    """A file whose operators do not depend on one another.

    Attributes:
        content: The file.
        inputs: The values of its inputs, which were computed by the old file.
        operators: The operators, in the order of computation.
    """

    content: bytes
    inputs: Arrays
    operators: tuple[SeparateOperator, ...]


def separate_operators(path: Path, inputs: Mapping[str, Array], computed: Mapping[str, Array]) -> SeparateOperators:
    """Returns a file with the operators of another, in which each operator takes given values and returns its results.

    All sizes are those of the values. Integers that operators take are constants, since they are often shapes.

    Args:
        path: The file.
        inputs: The inputs by name.
        computed: The tensors that the file computes from the inputs, by the names of `computed_tensors`.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(read_whole(path), 0)
    graph = model.subgraphs[0]
    numbers = {name: number for name, number in computed_tensors(graph).items() if name in computed}
    values = {int(graph.inputs[place]): inputs[name] for name, place in interface_order(path)[0].items()}
    values |= {number: computed[name] for name, number in numbers.items()}
    types = element_types()
    known = {number: array for number, array in values.items() if _is_plain(types[graph.tensors[number].type], array)}
    for number, array in known.items():
        graph.tensors[number].shape, graph.tensors[number].shapeSignature = np.array(array.shape, np.int32), None
    read = {int(number) for operator in graph.operators for number in operator.inputs}
    given = {number: _append_copy(model, graph, number, array) for number, array in known.items() if number in read}
    for operator in graph.operators:
        operator.inputs = [given.get(int(number), int(number)) for number in operator.inputs]
    taken = {number: place for number, place in given.items() if known[number].dtype.kind == "f"}
    returned = {name: number for name, number in numbers.items() if number in known}
    editor = Editor(model, graph)
    ends = {name: _cast_bool(editor, number) for name, number in returned.items()}
    graph.inputs, graph.outputs = [*taken.values()], [*ends.values()]
    names = {name: f"output_{number}" for name, number in returned.items()}
    signature = schema.SignatureDefT()
    signature.inputs = [_map_name(f"input_{number}", place) for number, place in taken.items()]
    signature.outputs = [_map_name(names[name], number) for name, number in ends.items()]
    signature.signatureKey, signature.subgraphIndex = SIGNATURE.encode(), 0
    model.signatureDefs, model.metadata = [signature], None
    codes = [operator_kind(code) for code in model.operatorCodes]
    by_number = {number: name for name, number in returned.items()}
    operators = []
    for operator in graph.operators:
        own = [by_number[int(number)] for number in operator.outputs if int(number) in by_number]
        place = own[0].partition(";")[0] if own else ""
        operators.append(SeparateOperator(codes[operator.opcodeIndex], place, {name: names[name] for name in own}))
    graph.operators = [*graph.operators, *editor.operators]
    arrays = {f"input_{number}": known[number] for number in taken}
    return SeparateOperators(pack_model(model), arrays, tuple(operators))


def round_constants(content: bytes, dtype: str) -> bytes:
    """Returns a file whose float32 constants are rounded to a shorter float."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    types = element_types()
    floats = {each.buffer for graph in model.subgraphs for each in graph.tensors if types[each.type] == "float32"}
    for number in floats:
        data = model.buffers[number].data
        if data is not None and len(data):
            rounded = round_to(np.frombuffer(bytes(data), np.float32), dtype)
            model.buffers[number].data = np.frombuffer(rounded.tobytes(), np.uint8)
    return pack_model(model)


def round_to(array: Array, dtype: str) -> Array:
    """Returns an array of floats with the values that a shorter float has; other arrays unchanged."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        return array.astype(as_dtype(dtype)).astype(array.dtype)


def _is_plain(dtype: str, array: Array) -> bool:
    """Whether the values of a tensor can be passed to a file and read from it."""
    return array.dtype.kind in "fiub" and array.dtype.name == dtype and array.size > 0


def _cast_bool(editor: Editor, number: int) -> int:
    """Returns a tensor, or one of int32 with the values of truth values: LiteRT.js returns no bool."""
    if editor.dtype(number) != "bool":
        return number
    result = editor.tensor(editor.shape(number), number, "int32")
    editor.add("CAST", [number], [result], "CastOptions")
    return result


def _append_copy(model: Any, graph: Any, number: int, array: Array) -> int:
    """Appends a tensor like another: a constant if it has integers, otherwise a tensor without values."""
    from ai_edge_litert import schema_py_generated as schema

    tensor = copy.copy(graph.tensors[number])
    tensor.name, tensor.buffer = (tensor.name or b"") + b"/given", 0
    if array.dtype.kind != "f":
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        tensor.buffer = len(model.buffers)
        model.buffers.append(buffer)
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def _map_name(name: str, number: int) -> Any:
    from ai_edge_litert import schema_py_generated as schema

    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), number
    return entry
