"""Other forms of the operators that LiteRT's GPU delegate computes wrongly. The faults are in docs/upstream.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.formats.litert_targets import MOST_AXES

_LANES = 4  # channels that the delegate stores together
_LOWEST = np.finfo(np.float32).min


def without_faults(editor: Editor, operators: Sequence[Any]) -> list[Any]:
    """Returns operators that compute the same.

    Args:
        editor: The subgraph, without operators.
        operators: The operators of the subgraph. The sizes of their tensors are known.
    """
    has_slopes = any(editor.kind(each) == "PRELU" for each in operators)
    reads = Counter(int(number) for each in operators for number in each.inputs)
    sums = {int(each.outputs[0]) for each in operators if editor.kind(each) == "ADD" and _is_computed(editor, each)}
    for operator in operators:
        kind, source = editor.kind(operator), int(operator.inputs[0]) if len(operator.inputs) else -1
        rule = _RULES.get(kind)
        if kind == "LEAKY_RELU" and not has_slopes:
            rule = None
        if kind in _EXTREMES and not (source in sums and reads[source] == 1):
            rule = None
        if rule is None or not rule(editor, operator, int(operator.outputs[0])):
            editor.operators.append(operator)
    return editor.operators


def _is_computed(editor: Editor, operator: Any) -> bool:
    return all(editor.values(int(number)) is None for number in operator.inputs)


def _four_axes(editor: Editor, operator: Any, output: int) -> bool:
    """Gives the operands four axes: of a constant with fewer, the delegate reads the first row of the first axis."""
    inputs, shape = [int(number) for number in operator.inputs], editor.shape(output)
    rows = [editor.shape(number) for number in inputs if editor.values(number) is not None]
    if not 1 < len(shape) < MOST_AXES or not any(len(each) == len(shape) and each[0] > 1 for each in rows):
        return False

    def wide(own: Sequence[int]) -> tuple[int, ...]:
        first, *others = (1,) * (len(shape) - len(own)) + tuple(own)
        return (first, *(1,) * (MOST_AXES - len(shape)), *others)

    views = [editor.reshape(number, wide(editor.shape(number))) for number in inputs]
    found = editor.tensor(wide(shape), output)
    editor.add_like(operator, views, [found])
    editor.reshape(found, shape, output)
    return True


def _whole_batches(editor: Editor, operator: Any, output: int) -> bool:
    """Repeats the operand of a product that is broadcast, by ones: the delegate multiplies other matrices."""
    numbers = [*map(int, operator.inputs), output]
    *shapes, result = ((1,) * (MOST_AXES - len(shape)) + shape for shape in map(editor.shape, numbers))
    if len(result) > MOST_AXES or all(shape[:2] == result[:2] for shape in shapes):
        return False
    views = list[int]()
    for number, shape in zip(numbers[:2], shapes, strict=True):
        views.append(editor.reshape(number, shape))
        if shape[:2] != result[:2]:
            ones = editor.constant(np.ones((*result[:2], 1, 1), np.float32), number)
            whole = editor.tensor((*result[:2], *shape[2:]), number)
            editor.add("MUL", [views[-1], ones], [whole], "MulOptions")
            views[-1] = whole
    found = editor.tensor(result, output)
    editor.add_like(operator, views, [found])
    editor.reshape(found, editor.shape(output), output)
    return True


def _place_of_largest(editor: Editor, operator: Any, output: int) -> bool:
    """Takes the place along the middle of three axes: along the last, the delegate compares its padding too."""
    source, axis = int(operator.inputs[0]), editor.values(int(operator.inputs[1]))
    *rows, count = shape = editor.shape(source)
    if axis is None or int(axis.ravel()[0]) % len(shape) != len(shape) - 1 or not count % _LANES:
        return False
    view, found = editor.reshape(source, (prod(rows), count, 1)), editor.tensor((prod(rows), 1), output)
    editor.add_like(operator, [view, editor.integers([1], output)], [found])
    editor.reshape(found, editor.shape(output), output)
    return True


def _largest(editor: Editor, operator: Any, output: int) -> bool:
    """Adds lowest numbers up to a multiple of four: the delegate leaves out the numbers behind the last one."""
    source, count = map(int, operator.inputs)
    *rows, size = editor.shape(source)
    if not size % _LANES or editor.dtype(source) != "float32":
        return False
    missing = editor.constant(np.full((*rows, -size % _LANES), _LOWEST, np.float32), source)
    padded = editor.tensor((*rows, size + -size % _LANES), source)
    editor.add("CONCATENATION", [source, missing], [padded], "ConcatenationOptions", axis=len(rows))
    editor.add_like(operator, [padded, count], [int(number) for number in operator.outputs])
    return True


def _extreme(editor: Editor, operator: Any, output: int) -> bool:
    """Multiplies a sum by 1: the delegate computes the sum inside the reduction, there also of its padding."""
    source, axes = map(int, operator.inputs)
    if editor.dtype(source) != "float32":
        return False
    product = editor.tensor(editor.shape(source), source)
    editor.add("MUL", [source, editor.constant(np.ones((), np.float32), source)], [product], "MulOptions")
    editor.add_like(operator, [product, axes], [output])
    return True


def _slopes(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a PRELU: behind another PRELU, the program of a LEAKY_RELU does not compile, and the output is zero."""
    source, shape = int(operator.inputs[0]), editor.shape(output)
    slopes = np.full((1,) * (len(shape) - 2) + shape[-1:], operator.builtinOptions.alpha, np.float32)
    editor.add("PRELU", [source, editor.constant(slopes, output)], [output])
    return True


def _computed_places(editor: Editor, operator: Any, output: int) -> bool:
    """Reshapes constant indices: the delegate does not load a GATHER by a constant."""
    source, indices = map(int, operator.inputs)
    values = editor.values(indices)
    if values is None or values.ndim != 1:
        return False
    places = editor.tensor(values.shape, indices)
    editor.reshape(editor.constant(values[None], indices), values.shape, places)
    editor.add_like(operator, [source, places], [output])
    return True


_EXTREMES = ("REDUCE_MAX", "REDUCE_MIN")
_BINARY = "ADD DIV EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL MAXIMUM MINIMUM MUL NOT_EQUAL POW SQUARED_DIFFERENCE SUB"
_RULES: dict[str, Callable[[Editor, Any, int], bool]] = {
    **dict.fromkeys(_BINARY.split(), _four_axes),
    **dict.fromkeys(_EXTREMES, _extreme),
    "ARG_MAX": _place_of_largest,
    "BATCH_MATMUL": _whole_batches,
    "GATHER": _computed_places,
    "LEAKY_RELU": _slopes,
    "TOPK_V2": _largest,
}
"""Functions that write an operator anew, and return False to leave the operator."""
