"""Operators of a LiteRT file as other operators, for devices that lack the first or compute it wrongly."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.formats.litert_gathers import write_lookup
from keras_pe.export.formats.litert_gelu import write_gelu


def write_negative(editor: Editor, operator: Any, output: int) -> bool:
    factor = editor.constant(np.array(-1, editor.dtype(output)), output)
    editor.add("MUL", [int(operator.inputs[0]), factor], [output], "MulOptions")
    return True


def _any(editor: Editor, operator: Any, output: int) -> bool:
    """Writes the largest of truth values as numbers."""
    source, axes = map(int, operator.inputs)
    numbers, most = (editor.tensor(editor.shape(each), output, "float32") for each in (source, output))
    editor.add("CAST", [source], [numbers], "CastOptions")
    editor.add("REDUCE_MAX", [numbers, axes], [most], "ReducerOptions", keepDims=operator.builtinOptions.keepDims)
    editor.add("GREATER", [most, editor.constant(np.zeros((), np.float32), output)], [output], "GreaterOptions")
    return True


def _not(editor: Editor, operator: Any, output: int) -> bool:
    number = editor.tensor(editor.shape(output), output, "int32")
    editor.add("CAST", [int(operator.inputs[0])], [number], "CastOptions")
    editor.add("LESS", [number, editor.constant(np.array(1, np.int32), output)], [output], "LessOptions")
    return True


def _difference(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a comparison of int32: the lesser of a difference and its opposite is 0 for equal numbers alone.

    It is negative for all others, also if the difference wraps around.
    """
    first, second = map(int, operator.inputs)
    if editor.dtype(first) == "float32":
        return _less_or_greater(editor, operator, output)
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


def _less_or_greater(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a comparison of float32: two tensors differ where one is less or greater, or one is NaN.

    NaN is neither less than 1 nor greater than -1.
    """
    pair = [int(number) for number in operator.inputs]
    differs = _either(editor, [pair, pair], output)
    for number in pair:
        values = editor.values(number)
        if values is not None and not np.isnan(values).any():
            continue
        ends = [[number, editor.constant(np.array(end, np.float32), output)] for end in (1, -1)]
        absent, most = (editor.tensor(editor.shape(each), output, "int32") for each in (number, output))
        one = editor.constant(np.array(1, np.int32), output)
        editor.add("SUB", [one, _either(editor, ends, output)], [absent], "SubOptions")
        editor.add("MAXIMUM", [differs, absent], [most], "MaximumMinimumOptions")
        differs = most
    is_equal = editor.kind(operator) == "EQUAL"
    limit = editor.constant(np.array(1 if is_equal else 0, np.int32), output)
    kind, options = ("LESS", "LessOptions") if is_equal else ("GREATER", "GreaterOptions")
    editor.add(kind, [differs, limit], [output], options)
    return True


def _either(editor: Editor, pairs: Sequence[Sequence[int]], like: int) -> int:
    """Returns 1 where the first pair is in ascending order, or the second pair in descending order; otherwise 0."""
    shape, numbers = np.broadcast_shapes(*map(editor.shape, pairs[0])), list[int]()
    for pair, kind, options in zip(pairs, ("LESS", "GREATER"), ("LessOptions", "GreaterOptions"), strict=True):
        flag = editor.tensor(shape, like)
        numbers.append(editor.tensor(shape, like, "int32"))
        editor.add(kind, pair, [flag], options)
        editor.add("CAST", [flag], numbers[-1:], "CastOptions")
    most = editor.tensor(shape, like, "int32")
    editor.add("MAXIMUM", numbers, [most], "MaximumMinimumOptions")
    return most


def _square(editor: Editor, operator: Any, output: int) -> bool:
    editor.add("MUL", [int(operator.inputs[0])] * 2, [output], "MulOptions")
    return True


def write_pack(editor: Editor, operator: Any, output: int) -> bool:
    shape = editor.shape(output)
    axis = operator.builtinOptions.axis % len(shape)
    rows = [editor.reshape(int(number), (*shape[:axis], 1, *shape[axis + 1 :])) for number in operator.inputs]
    editor.add("CONCATENATION", rows, [output], "ConcatenationOptions", axis=axis)
    return True


def write_unpack(editor: Editor, operator: Any, output: int) -> bool:
    source, outputs = int(operator.inputs[0]), [int(number) for number in operator.outputs]
    shape = editor.shape(source)
    axis = operator.builtinOptions.axis % len(shape)
    rows = [editor.tensor((*shape[:axis], 1, *shape[axis + 1 :]), number) for number in outputs]
    write_slices(editor, source, axis, rows)
    for row, number in zip(rows, outputs, strict=True):
        editor.reshape(row, editor.shape(number), number)
    return True


def _depth_and_space(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a transpose of the columns and the rows of each block. Each block is in one group of adjacent channels."""
    source, block = int(operator.inputs[0]), operator.builtinOptions.blockSize
    is_opened = editor.kind(operator) == "DEPTH_TO_SPACE"
    batch, height, width, channels = editor.shape(source if is_opened else output)
    closed = (batch * height, width, block, channels // block)
    opened = (batch * height, block, width, channels // block)
    moved = editor.tensor(opened if is_opened else closed, source)
    order = editor.integers([0, 2, 1, 3], source)
    editor.add("TRANSPOSE", [editor.reshape(source, closed if is_opened else opened), order], [moved])
    editor.reshape(moved, editor.shape(output), output)
    return True


def _tile(editor: Editor, operator: Any, output: int) -> bool:
    source, counts = int(operator.inputs[0]), editor.values(int(operator.inputs[1]))
    if counts is None or counts.max() == 1:
        return False
    axes = [(axis, int(count)) for axis, count in enumerate(counts) if count > 1]
    for axis, count in axes:
        source = _copies(editor, source, axis, count, output if axis == axes[-1][0] else None)
    return True


def _copies(editor: Editor, source: int, axis: int, count: int, output: int | None = None) -> int:
    """Returns copies of a tensor side by side: five copies of a fifth of them, and the copies that are left."""
    shape = list(editor.shape(source))
    shape[axis] *= count
    result = editor.tensor(shape, source) if output is None else output
    parts = [source] * count
    if count > _MOST_COPIES:
        each, left = divmod(count, _PARTS)
        parts = [_copies(editor, source, axis, each)] * _PARTS + [source] * left
    editor.add("CONCATENATION", parts, [result], "ConcatenationOptions", axis=axis)
    return result


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


def _choice(editor: Editor, operator: Any, output: int) -> bool:
    """Writes the sum of two products, one with the condition and one with its opposite, if both choices are finite."""
    condition, *choices = map(int, operator.inputs)
    shape, dtype = editor.shape(condition), editor.dtype(output)
    is_row_choice = editor.kind(operator) == "SELECT" and shape != editor.shape(output)
    if dtype not in ("float32", "int32") or is_row_choice or not all(_is_finite(editor, each) for each in choices):
        return False
    flag, opposite, parts = editor.tensor(shape, output), editor.tensor(shape, output), list[int]()
    editor.add("CAST", [condition], [flag], "CastOptions")
    editor.add("SUB", [editor.constant(np.array(1, dtype), output), flag], [opposite], "SubOptions")
    for factor, choice in zip((flag, opposite), choices, strict=True):
        parts.append(editor.tensor(np.broadcast_shapes(shape, editor.shape(choice)), output))
        editor.add("MUL", [factor, choice], [parts[-1]], "MulOptions")
    editor.add("ADD", parts, [output], "AddOptions")
    return True


def _is_finite(editor: Editor, number: int) -> bool:
    """Returns whether a tensor is finite for finite inputs, as long as sums and products are.

    Zero times an infinity is NaN, so that a product does not choose.
    """
    makers = {int(each): operator for operator in editor.operators for each in operator.outputs}
    left, seen = [number], set[int]()
    while left:
        number = left.pop()
        values, maker = editor.values(number), makers.get(number)
        if values is not None and not np.isfinite(values).all():
            return False
        if number in seen or maker is None or editor.dtype(number) != "float32" or editor.kind(maker) in _BOUNDED:
            continue
        if editor.kind(maker) not in _KEEPS_FINITE:
            return False
        seen.add(number)
        left += [int(each) for each in maker.inputs if each >= 0]
    return True


def _both(editor: Editor, operator: Any, output: int) -> bool:
    flags = list[int]()
    for number in map(int, operator.inputs):
        flags.append(editor.tensor(editor.shape(number), output, "int32"))
        editor.add("CAST", [number], flags[-1:], "CastOptions")
    product = editor.tensor(editor.shape(output), output, "int32")
    editor.add("MUL", flags, [product], "MulOptions")
    editor.add("GREATER", [product, editor.constant(np.array(0, np.int32), output)], [output], "GreaterOptions")
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


_MOST_COPIES, _PARTS = 10, 5
_BOUNDED = frozenset(["BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LOGISTIC", "SOFTMAX", "TANH"])
"""Operators whose results are finite unless a sum of products overflows."""
_MOVES = "CAST CONCATENATION PAD RESHAPE SLICE STRIDED_SLICE TRANSPOSE"
_KEEPS_FINITE = frozenset(f"ADD MAXIMUM MINIMUM MUL RELU SUB {_MOVES}".split())
SYNONYMS: dict[str, Callable[[Editor, Any, int], bool]] = {
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), _depth_and_space),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _difference),
    "GATHER": write_lookup,
    "GELU": write_gelu,
    "LOGICAL_AND": _both,
    "LOGICAL_NOT": _not,
    "NEG": write_negative,
    "PACK": write_pack,
    "REDUCE_ANY": _any,
    **dict.fromkeys(("SELECT", "SELECT_V2"), _choice),
    "SQUARE": _square,
    "TILE": _tile,
    "UNPACK": write_unpack,
}
"""Functions that write an operator that the device does not take."""
