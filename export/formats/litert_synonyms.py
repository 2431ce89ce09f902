"""Operators of a LiteRT file as other operators, for devices that lack the first or compute it wrongly."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor


def _negative(editor: Editor, operator: Any, output: int) -> bool:
    factor = editor.constant(np.array(-1, editor.dtype(output)), output)
    editor.add("MUL", [int(operator.inputs[0]), factor], [output], "MulOptions")
    return True


def _any(editor: Editor, operator: Any, output: int) -> bool:
    source, axes = map(int, operator.inputs)
    negated, every = editor.tensor(editor.shape(source), output), editor.tensor(editor.shape(output), output)
    editor.add("LOGICAL_NOT", [source], [negated], "LogicalNotOptions")
    keep_dims = operator.builtinOptions.keepDims
    editor.add("REDUCE_ALL", [negated, axes], [every], "ReducerOptions", keepDims=keep_dims)
    editor.add("LOGICAL_NOT", [every], [output], "LogicalNotOptions")
    return True


def _difference(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a comparison of int32: the lesser of a difference and its opposite is 0 for equal numbers alone.

    It is negative for all others, also if the difference wraps around.
    """
    first, second = map(int, operator.inputs)
    if editor.dtype(first) != "int32":
        return False
    shape, parts = editor.shape(output), list[int]()
    for pair in ((first, second), (second, first)):
        parts.append(editor.tensor(shape, output, dtype="int32"))
        editor.add("SUB", pair, [parts[-1]], "SubOptions")
    least, is_equal = editor.tensor(shape, output, dtype="int32"), editor.kind(operator) == "EQUAL"
    editor.add("MINIMUM", parts, [least], "MaximumMinimumOptions")
    limit = editor.constant(np.array(-1 if is_equal else 0, np.int32), output)
    kind, options = ("GREATER", "GreaterOptions") if is_equal else ("LESS", "LessOptions")
    editor.add(kind, [least, limit], [output], options)
    return True


def _square(editor: Editor, operator: Any, output: int) -> bool:
    editor.add("MUL", [int(operator.inputs[0])] * 2, [output], "MulOptions")
    return True


def _pack(editor: Editor, operator: Any, output: int) -> bool:
    shape = editor.shape(output)
    axis = operator.builtinOptions.axis % len(shape)
    rows = [editor.reshape(int(number), (*shape[:axis], 1, *shape[axis + 1 :])) for number in operator.inputs]
    editor.add("CONCATENATION", rows, [output], "ConcatenationOptions", axis=axis)
    return True


def _unpack(editor: Editor, operator: Any, output: int) -> bool:
    source, outputs = int(operator.inputs[0]), [int(number) for number in operator.outputs]
    shape = editor.shape(source)
    axis = operator.builtinOptions.axis % len(shape)
    rows = [editor.tensor((*shape[:axis], 1, *shape[axis + 1 :]), number) for number in outputs]
    write_slices(editor, source, axis, rows)
    for row, number in zip(rows, outputs, strict=True):
        editor.reshape(row, editor.shape(number), number)
    return True


def _tile(editor: Editor, operator: Any, output: int) -> bool:
    found, counts = int(operator.inputs[0]), editor.values(int(operator.inputs[1]))
    if counts is None or counts.max() > _MOST_COPIES or counts.max() == 1:
        return False
    repeated = [axis for axis, count in enumerate(counts) if count > 1]
    for axis in repeated:
        shape = list(editor.shape(found))
        shape[axis] *= int(counts[axis])
        result = output if axis == repeated[-1] else editor.tensor(shape, output)
        editor.add("CONCATENATION", [found] * int(counts[axis]), [result], "ConcatenationOptions", axis=axis)
        found = result
    return True


def write_running_sum(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a running sum of integers as sums with shifted copies, whose reach doubles.

    The copies begin with zeros by CONCATENATION: LiteRT.js does not compute a PAD of int32 on WebGPU.
    """
    found, places = int(operator.inputs[0]), editor.values(int(operator.inputs[1]))
    shape, options = editor.shape(output), operator.builtinOptions
    if editor.dtype(output) != "int32" or places is None or options.exclusive or options.reverse:
        return False
    axis, rank, reach = int(places.ravel()[0]) % len(shape), len(shape), 1
    while reach < shape[axis]:
        size = [shape[each] - reach if each == axis else shape[each] for each in range(rank)]
        cut, moved = editor.tensor(size, output), editor.tensor(shape, output)
        editor.add("SLICE", [found, *(editor.integers(each, output) for each in ([0] * rank, size))], [cut])
        begin = [reach if each == axis else shape[each] for each in range(rank)]
        inputs = [editor.constant(np.zeros(begin, np.int32), output), cut]
        editor.add("CONCATENATION", inputs, [moved], "ConcatenationOptions", axis=axis)
        reach *= 2
        total = output if reach >= shape[axis] else editor.tensor(shape, output)
        editor.add("ADD", [found, moved], [total], "AddOptions")
        found = total
    return found == output


def write_integer_choice(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a choice of int32 as the sum of two products, one with the condition and one with its opposite."""
    condition, *choices = map(int, operator.inputs)
    shape = editor.shape(condition)
    if editor.dtype(output) != "int32" or (editor.kind(operator) == "SELECT" and shape != editor.shape(output)):
        return False
    opposite, parts = editor.tensor(shape, condition), list[int]()
    editor.add("LOGICAL_NOT", [condition], [opposite], "LogicalNotOptions")
    for flag, choice in zip((condition, opposite), choices, strict=True):
        number = editor.tensor(shape, output)
        editor.add("CAST", [flag], [number])
        parts.append(editor.tensor(np.broadcast_shapes(shape, editor.shape(choice)), output))
        editor.add("MUL", [number, choice], [parts[-1]], "MulOptions")
    editor.add("ADD", parts, [output], "AddOptions")
    return True


def write_split(editor: Editor, operator: Any, output: int) -> bool:
    """Writes slices: on WebGPU, LiteRT.js adds two outputs of a SPLIT wrongly, or does not load the file."""
    outputs = [int(number) for number in operator.outputs]
    axis, source = int(operator.inputs[0]), int(operator.inputs[1])
    if editor.kind(operator) == "SPLIT_V":
        source, axis = int(operator.inputs[0]), int(operator.inputs[2])
    places = editor.values(axis)
    if places is None:
        return False
    write_slices(editor, source, int(places.ravel()[0]) % len(editor.shape(source)), outputs)
    return True


def write_slices(editor: Editor, source: int, axis: int, parts: Sequence[int]) -> None:
    """Writes the parts of a tensor along an axis, in order, each as a slice."""
    shape, start = editor.shape(source), 0
    for number in parts:
        begin, end = [0] * len(shape), list(shape)
        begin[axis], end[axis] = start, start + editor.shape(number)[axis]
        inputs = [source, *(editor.integers(each, number) for each in (begin, end, [1] * len(shape)))]
        editor.add("STRIDED_SLICE", inputs, [number], "StridedSliceOptions")
        start = end[axis]


_MOST_COPIES = 16
SYNONYMS: dict[str, Callable[[Editor, Any, int], bool]] = {
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _difference),
    "NEG": _negative,
    "PACK": _pack,
    "REDUCE_ANY": _any,
    "SQUARE": _square,
    "TILE": _tile,
    "UNPACK": _unpack,
}
"""Functions that write an operator that the device does not take."""
