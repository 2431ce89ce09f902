"""Operators of a LiteRT file in forms that GPUs, NPUs and microcontrollers take. All sizes must be known."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.artifacts.litert_file import pack_model
from keras_pe.export.formats.litert_axes import with_few_axes
from keras_pe.export.formats.litert_faults import without_faults
from keras_pe.export.formats.litert_gathers import write_gather, write_gather_nd
from keras_pe.export.formats.litert_lstm import write_lstm
from keras_pe.export.formats.litert_micro import with_micro_kernels
from keras_pe.export.formats.litert_numbers import limit_masks, narrow_indices, widen_outputs
from keras_pe.export.formats.litert_synonyms import SYNONYMS, write_running_sum, write_split
from keras_pe.export.formats.litert_targets import MOST_AXES, Target
from keras_pe.export.graph.litert_recurrences import LSTM_CALL

_MASKS = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")


def rewritten(content: bytes, device: Target, paths: Mapping[str, str]) -> bytes:
    """Returns a file with the same results, in which operators have the forms of this module.

    Args:
        content: The file.
        device: The device.
        paths: The path of the operator behind each output of the signature. The converter drops these paths.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for signature in model.signatureDefs or ():
        for output in signature.outputs:
            tensor = model.subgraphs[signature.subgraphIndex].tensors[output.tensorIndex]
            tensor.name = paths.get(output.name.decode(), tensor.name.decode()).encode()
    for graph in model.subgraphs:
        editor = Editor(model, graph)
        narrow_indices(editor, graph)
        if graph is model.subgraphs[0]:
            widen_outputs(editor, model, graph)
        for operator in graph.operators:
            kind = editor.kind(operator)
            outputs = [int(number) for number in operator.outputs]
            synonym = SYNONYMS.get(kind) if device.operators.isdisjoint((kind, _NEWER.get(kind, kind))) else None
            forms = [rule for rule in (synonym, _RULES.get(kind)) if rule is not None]
            if not _is_sized(editor, operator) or not any(rule(editor, operator, *outputs[:1]) for rule in forms):
                editor.operators.append(operator)
        _separate_outputs(model, editor, graph)
        graph.operators = editor.operators
        limit_masks(editor, graph)
        graph.operators = with_few_axes(Editor(model, graph), graph.operators)
        if device.avoids_faults:
            graph.operators = without_faults(Editor(model, graph), graph.operators)
        if device.has_few_kernels:
            graph.operators = with_micro_kernels(Editor(model, graph), graph.operators)
    return pack_model(model)


def with_lstm_operators(content: bytes) -> bytes:
    """Returns a file in which the traced calls of LSTM layers are operators; unchanged without such calls."""
    from ai_edge_litert import schema_py_generated as schema

    if LSTM_CALL.encode() not in content:
        return content
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for graph in model.subgraphs:
        editor = Editor(model, graph)
        for operator in graph.operators or ():
            if editor.kind(operator) != "CUSTOM" or not write_lstm(editor, operator, int(operator.outputs[0])):
                editor.operators.append(operator)
        graph.operators = editor.operators
    return pack_model(model)


def _separate_outputs(model: Any, editor: Editor, graph: Any) -> None:
    """Gives each output of a signature a tensor of its own: `CompiledModel` returns zeros for one of two equal ones."""
    for signature in model.signatureDefs or ():
        if model.subgraphs[signature.subgraphIndex] is not graph:
            continue
        taken = {int(number) for number in graph.inputs}
        for output in signature.outputs:
            number, shape = int(output.tensorIndex), editor.shape(output.tensorIndex)
            if number in taken and min(shape, default=1) > 0:
                output.tensorIndex = editor.reshape(number, shape, editor.tensor(shape, number))
                numbers = [int(each) for each in graph.outputs]
                numbers[len(numbers) - 1 - numbers[::-1].index(number)] = output.tensorIndex
                graph.outputs = numbers
            taken.add(number)


def _is_sized(editor: Editor, operator: Any) -> bool:
    tensors = [int(number) for number in (*operator.inputs, *operator.outputs) if number >= 0]
    return all(size >= 0 for number in tensors for size in editor.shape(number))


def _broadcast(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a product with ones, or `or` with False."""
    source, shape = int(operator.inputs[0]), editor.shape(output)
    aligned = (1,) * (len(shape) - len(editor.shape(source))) + editor.shape(source)
    source, dtype = editor.reshape(source, aligned), editor.dtype(source)
    repeats = [size if own != size else 1 for own, size in zip(aligned, shape, strict=True)]
    if dtype == "bool":
        editor.add("LOGICAL_OR", [source, editor.constant(np.zeros(repeats, bool), output)], [output])
    elif dtype in ("float32", "float16", "int32", "int64"):
        editor.add("MUL", [source, editor.constant(np.ones(repeats, dtype), output)], [output], "MulOptions")
    else:
        return False
    return True


def _slice(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a slice that keeps all axes and steps forwards, a reversal, and a reshape.

    A slice of a whole tensor is a reshape: LiteRT.js does not compute such a slice of int32 on WebGPU.
    """
    source, *places = map(int, operator.inputs)
    begin, end, steps = map(editor.values, places)
    if begin is None or end is None or steps is None or not editor.size(output):
        return False
    masks = [getattr(operator.builtinOptions, name) for name in _MASKS]
    is_plain = not any(masks[2:]) and (steps > 0).all()
    is_written_out = not any(masks) and len(begin) == len(editor.shape(source))
    is_known = len(editor.shape(source)) <= MOST_AXES or is_written_out
    if is_plain and is_known and editor.shape(source) != editor.shape(output):
        return False
    cut = _cut(editor.shape(source), begin.tolist(), end.tolist(), steps.tolist(), masks)
    if any(not part for part in cut):
        return False
    is_reversed = [part.step < 0 for part in cut]
    forward = [part[::-1] if back else part for part, back in zip(cut, is_reversed, strict=True)]
    found, shape = source, tuple(map(len, forward))
    if shape != editor.shape(source):
        found = editor.tensor(shape, output)
        ends = ([part[0] for part in forward], [part[-1] + 1 for part in forward], [part.step for part in forward])
        inputs = [source, *(editor.integers(each, output) for each in ends)]
        editor.add("STRIDED_SLICE", inputs, [found], "StridedSliceOptions")
    for axis in np.flatnonzero(is_reversed):
        found = _reverse_axis(editor, found, int(axis), editor.tensor(shape, output))
    editor.reshape(found, editor.shape(output), output)
    return True


def _reverse(editor: Editor, operator: Any, output: int) -> bool:
    """Reverses one axis after another: LiteRT refuses axes that are not neighbors."""
    found, axes = int(operator.inputs[0]), editor.values(int(operator.inputs[1]))
    if axes is None or axes.size < 2:
        return False
    for place, axis in enumerate(axes.ravel()):
        result = output if place == axes.size - 1 else editor.tensor(editor.shape(output), output)
        found = _reverse_axis(editor, found, int(axis), result)
    return True


def _reverse_axis(editor: Editor, number: int, axis: int, result: int) -> int:
    editor.add("REVERSE_V2", [number, editor.integers([axis], result)], [result], "ReverseV2Options")
    return result


def _cut(
    shape: Sequence[int], begin: Sequence[int], end: Sequence[int], steps: Sequence[int], masks: Sequence[int]
) -> list[range]:
    """Returns the indices that a slice takes of each axis."""
    at_begin, at_end, ellipsis, new, shrink = masks
    cut: list[range] = []
    for place, (first, last, step) in enumerate(zip(begin, end, steps, strict=True)):
        bit = 1 << place
        if ellipsis & bit:
            later = sum(1 for other in range(place + 1, len(begin)) if not new >> other & 1)
            cut += [range(size) for size in shape[len(cut) : len(shape) - later]]
        elif not new & bit:
            size = shape[len(cut)]
            if shrink & bit:
                cut.append(range(first % size, first % size + 1))
            else:
                whole = slice(None if at_begin & bit else first, None if at_end & bit else last, step)
                cut.append(range(size)[whole])
    return cut + [range(size) for size in shape[len(cut) :]]


def _log_softmax(editor: Editor, operator: Any, output: int) -> bool:
    """Writes `x - max - log(sum(exp(x - max)))`."""
    source, shape = int(operator.inputs[0]), editor.shape(output)
    axis, column = editor.integers([len(shape) - 1], output), (*shape[:-1], 1)
    most, shifted, powers, total, logs = (
        editor.tensor(each, output) for each in (column, shape, shape, column, column)
    )
    editor.add("REDUCE_MAX", [source, axis], [most], "ReducerOptions", keepDims=True)
    editor.add("SUB", [source, most], [shifted], "SubOptions")
    editor.add("EXP", [shifted], [powers])
    editor.add("SUM", [powers, axis], [total], "ReducerOptions", keepDims=True)
    editor.add("LOG", [total], [logs])
    editor.add("SUB", [shifted, logs], [output], "SubOptions")
    return True


def _equal_ranks(editor: Editor, operator: Any, output: int) -> bool:
    """Gives the operands of an elementwise operator as many axes: a GPU takes the first axis of three for the batch."""
    inputs, rank = [int(number) for number in operator.inputs], len(editor.shape(output))
    shapes = [editor.shape(number) for number in inputs]
    if all(len(shape) in (0, 1, rank) for shape in shapes):
        return False
    full = [(1,) * (rank - len(shape)) + shape if len(shape) > 1 else shape for shape in shapes]
    wide = [editor.reshape(number, shape) for number, shape in zip(inputs, full, strict=True)]
    editor.add_like(operator, wide, [output])
    return True


def _choice(editor: Editor, operator: Any, output: int) -> bool:
    """Gives both choices of a SELECT the shape of the result, where they are not scalars."""
    condition, *choices = map(int, operator.inputs)
    shape, wide = editor.shape(output), list[int]()
    if len(editor.shape(condition)) > 1:
        condition = editor.reshape(
            condition, (1,) * (len(shape) - len(editor.shape(condition))) + editor.shape(condition)
        )
    for choice in choices:
        values = editor.values(choice)
        if editor.size(choice) == 1 or editor.shape(choice) == shape:
            wide.append(editor.reshape(choice, ()) if editor.size(choice) == 1 else choice)
        elif values is not None:
            wide.append(editor.constant(np.broadcast_to(values, shape), choice))
        else:
            wide.append(editor.tensor(shape, choice))
            if not _broadcast(editor, SimpleNamespace(inputs=[choice]), wide[-1]):
                return False
    editor.add("SELECT_V2", [condition, *wide], [output], "SelectV2Options")
    return True


def _least_place(editor: Editor, operator: Any, output: int) -> bool:
    source, axis = map(int, operator.inputs)
    if editor.dtype(source) != "float32":
        return False
    negative = editor.tensor(editor.shape(source), source)
    editor.add("NEG", [source], [negative])
    editor.add("ARG_MAX", [negative, axis], [output], "ArgMaxOptions", outputType=operator.builtinOptions.outputType)
    return True


def _add_all(editor: Editor, operator: Any, output: int) -> bool:
    first, *others = map(int, operator.inputs)
    for place, other in enumerate(others):
        result = output if place == len(others) - 1 else editor.tensor(editor.shape(output), output)
        editor.add("ADD", [first, other], [result], "AddOptions")
        first = result
    return bool(others)


def _reshape(editor: Editor, operator: Any, output: int) -> bool:
    editor.reshape(int(operator.inputs[0]), editor.shape(output), output)
    return True


_BINARY = """
ADD ATAN2 DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR MAXIMUM MINIMUM MUL
NOT_EQUAL POW SQUARED_DIFFERENCE SUB
"""
_RULES: dict[str, Callable[[Editor, Any, int], bool]] = {
    **dict.fromkeys(_BINARY.split(), _equal_ranks),
    "ADD_N": _add_all,
    "ARG_MIN": _least_place,
    "BROADCAST_TO": _broadcast,
    "CUMSUM": write_running_sum,
    "CUSTOM": write_lstm,
    "EXPAND_DIMS": _reshape,
    "GATHER": write_gather,
    "GATHER_ND": write_gather_nd,
    "LOG_SOFTMAX": _log_softmax,
    "REVERSE_V2": _reverse,
    "SELECT": _choice,
    "SELECT_V2": _choice,
    **dict.fromkeys(("SPLIT", "SPLIT_V"), write_split),
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _slice,
}
"""Functions that write an operator anew, and return False to leave the operator."""
_NEWER = {"SELECT": "SELECT_V2"}
"""Operators that another function writes as a newer one."""
