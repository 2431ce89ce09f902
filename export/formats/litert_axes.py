"""Operators on tensors of more than four axes as operators on four at most: adjacent axes are merged."""

from collections.abc import Callable, Iterable
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.formats.litert_folding import Folded, Shape, merge
from keras_pe.export.formats.litert_synonyms import write_slices
from keras_pe.export.formats.litert_targets import MOST_AXES


def with_few_axes(editor: Editor, operators: Iterable[Any]) -> list[Any]:
    """Returns operators that compute the same, on four axes at most where such a form is known.

    Args:
        editor: The subgraph, without operators.
        operators: The operators of the subgraph. The sizes of their tensors are known.
    """
    folded = Folded(editor)
    for operator in operators:
        tensors = [int(number) for number in (*operator.inputs, *operator.outputs) if number >= 0]
        shapes = [editor.shape(number) for number in tensors]
        is_small = all(len(shape) <= MOST_AXES for shape in shapes)
        form = (
            None
            if is_small or any(size < 1 for shape in shapes for size in shape)
            else _FORMS.get(editor.kind(operator))
        )
        if form is None or not form(folded, operator):
            folded.keep(operator)
    return editor.operators


def _reshape(folded: Folded, operator: Any) -> bool:
    return folded.copy(int(operator.inputs[0]), int(operator.outputs[0]))


def _elementwise(folded: Folded, operator: Any) -> bool:
    """Merges the axes along which the same operands are broadcast."""
    inputs = [int(number) for number in operator.inputs]
    shapes = [folded.editor.shape(number) for number in (*inputs, int(operator.outputs[0]))]
    rank = max(map(len, shapes))
    shapes = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    merged = merge(shapes, [tuple(size == 1 for size in sizes) for sizes in zip(*shapes, strict=True)])
    if merged is None:
        return False
    views = [() if folded.editor.size(number) == 1 else view for number, view in zip(inputs, merged, strict=False)]
    return folded.apply(operator, [folded.read(*each) for each in zip(inputs, views, strict=True)], merged[-1:])


def _reduction(folded: Folded, operator: Any) -> bool:
    source, axes = map(int, operator.inputs)
    shape, values = folded.editor.shape(source), folded.editor.values(axes)
    reduced = {int(axis) % len(shape) for axis in values.ravel()} if values is not None else set()
    after = tuple(1 if axis in reduced else size for axis, size in enumerate(shape))
    merged = merge([shape, after], [axis in reduced for axis in range(len(shape))])
    if values is None or merged is None:
        return False
    places = [axis for axis, (old, new) in enumerate(zip(*merged, strict=True)) if old != new]
    if not places:
        return folded.copy(source, int(operator.outputs[0]))
    inputs = [folded.read(source, merged[0]), folded.editor.integers(places, int(operator.outputs[0]))]
    return folded.apply(operator, inputs, merged[1:], keepDims=True)


def _transpose(folded: Folded, operator: Any) -> bool:
    """Merges the axes that stay neighbors. With more than four left, blocks of axes change places one after another."""
    editor, (source, order), output = folded.editor, map(int, operator.inputs), int(operator.outputs[0])
    shape, values = editor.shape(source), editor.values(order)
    if values is None:
        return False
    axes = [axis for axis in values.tolist() if shape[axis] > 1]
    wide = sorted(axes)
    last = [wide.index(axis) for axis in axes]
    sizes = [shape[axis] for axis in wide]
    current, number = list(range(len(sizes))), source
    while current != last:
        place = next(place for place, axis in enumerate(last) if current[place] != axis)
        start = current.index(last[place])
        stop = start + 1
        while stop < len(current) and current[stop] == last[place + stop - start]:
            stop += 1
        blocks = current[:place], current[place:start], current[start:stop], current[stop:]
        before, middle, moved, after = (prod(sizes[axis] for axis in block) for block in blocks)
        view = folded.read(number, (before, middle, moved, after))
        number = editor.tensor((before, moved, middle, after), output)
        editor.add_like(operator, [view, editor.integers((0, 2, 1, 3), output)], [number])
        current = [*blocks[0], *blocks[2], *blocks[1], *blocks[3]]
    return folded.copy(number, output)


def _around(shape: Shape, axis: int) -> Shape:
    """Returns a shape of three axes: all before an axis, the axis, all behind it."""
    axis %= len(shape)
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _concatenation(folded: Folded, operator: Any) -> bool:
    axis, output, editor = operator.builtinOptions.axis, int(operator.outputs[0]), folded.editor
    inputs = [int(number) for number in operator.inputs]
    views = [folded.read(number, _around(editor.shape(number), axis)) for number in inputs]
    return folded.apply(operator, views, [_around(editor.shape(output), axis)], axis=1)


def _pack(folded: Folded, operator: Any) -> bool:
    editor, output = folded.editor, int(operator.outputs[0])
    before, count, after = shape = _around(editor.shape(output), operator.builtinOptions.axis)
    views = [folded.read(int(number), (before, count // len(operator.inputs), after)) for number in operator.inputs]
    result = folded.result(output, shape)
    editor.add("CONCATENATION", views, [result], "ConcatenationOptions", axis=1)
    folded.replace(output, result)
    return True


def _unpack(folded: Folded, operator: Any) -> bool:
    editor, source = folded.editor, int(operator.inputs[0])
    before, _, after = shape = _around(editor.shape(source), operator.builtinOptions.axis)
    outputs = [int(number) for number in operator.outputs]
    results = [editor.tensor((before, 1, after), number) for number in outputs]
    write_slices(editor, folded.read(source, shape), 1, results)
    for number, result in zip(outputs, results, strict=True):
        folded.copy(result, number)
    return True


def _running_sum(folded: Folded, operator: Any) -> bool:
    editor, (source, places) = folded.editor, map(int, operator.inputs)
    axis = editor.values(places)
    if axis is None:
        return False
    shape = _around(editor.shape(source), int(axis.ravel()[0]))
    return folded.apply(operator, [folded.read(source, shape), editor.integers([1], source)], [shape])


def _gather(folded: Folded, operator: Any) -> bool:
    editor, (source, indices), axis = folded.editor, map(int, operator.inputs), operator.builtinOptions.axis
    if operator.builtinOptions.batchDims or len(editor.shape(indices)) != 1:
        return False
    before, _, after = shape = _around(editor.shape(source), axis)
    return folded.apply(
        operator, [folded.read(source, shape), indices], [(before, *editor.shape(indices), after)], axis=1
    )


def _softmax(folded: Folded, operator: Any) -> bool:
    source = int(operator.inputs[0])
    shape = folded.editor.shape(source)
    rows = prod(shape[:-1]), shape[-1]
    return folded.apply(operator, [folded.read(source, rows)], [rows])


def _fully_connected(folded: Folded, operator: Any) -> bool:
    source, *weights = map(int, operator.inputs)
    shape, result = folded.editor.shape(source), folded.editor.shape(int(operator.outputs[0]))
    if not operator.builtinOptions.keepNumDims:
        return False
    return folded.apply(
        operator,
        [folded.read(source, (prod(shape[:-1]), shape[-1])), *weights],
        [(prod(result[:-1]), result[-1])],
    )


def _matrix_product(folded: Folded, operator: Any) -> bool:
    """Merges the axes of the batch, which are broadcast like those of an elementwise operator."""
    editor, inputs = folded.editor, [int(number) for number in operator.inputs]
    shapes = [editor.shape(number) for number in (*inputs, int(operator.outputs[0]))]
    rank = max(map(len, shapes))
    batches = [(1,) * (rank - len(shape)) + shape[:-2] for shape in shapes]
    merged = merge(batches, [tuple(size == 1 for size in sizes) for sizes in zip(*batches, strict=True)])
    if merged is None or len(merged[0]) > MOST_AXES - 2:
        return False
    full = [(*batch, *shape[-2:]) for batch, shape in zip(merged, shapes, strict=True)]
    return folded.apply(operator, [folded.read(*each) for each in zip(inputs, full, strict=False)], full[-1:])


def _by_axis(*whole: int) -> Callable[[Folded, Any], bool]:
    """Returns the form of an operator whose further inputs have a number, or two, for each axis.

    The operator is written once for each axis whose size changes.

    Args:
        *whole: The number of each input for an axis that stays whole; -1 for the size of the axis.
    """

    def form(folded: Folded, operator: Any) -> bool:
        editor, (number, *others) = folded.editor, [int(number) for number in operator.inputs]
        shape, output = list(editor.shape(number)), int(operator.outputs[0])
        constants = [editor.values(other) for other in others[: len(whole)]]
        if any(_masks(operator)) or any(each is None for each in constants):
            return False
        rows = [each.reshape(len(shape), -1).tolist() for each in constants if each is not None]
        changed = [axis for axis, size in enumerate(editor.shape(output)) if size != shape[axis]]
        for axis in changed:
            view = _around(tuple(shape), axis)
            ends = [
                [[view[end] if usual == -1 else usual] * len(row[axis]) for end in (0, 2)]
                for usual, row in zip(whole, rows, strict=True)
            ]
            numbers = [[first, row[axis], last] for (first, last), row in zip(ends, rows, strict=True)]
            arrays = [
                editor.constant(np.array(each, np.int32).reshape(3, *([2] if len(each[0]) > 1 else [])), output)
                for each in numbers
            ]
            shape[axis] = editor.shape(output)[axis]
            result = editor.tensor(_around(tuple(shape), axis), output)
            editor.add_like(operator, [folded.read(number, view), *arrays, *others[len(whole) :]], [result])
            number = result
        return folded.copy(number, output)

    return form


def _masks(operator: Any) -> Iterable[int]:
    """Returns the masks of a slice."""
    return [value for name, value in vars(operator.builtinOptions or operator).items() if name.endswith("Mask")]


def _reverse(folded: Folded, operator: Any) -> bool:
    editor, (source, axes), output = folded.editor, map(int, operator.inputs), int(operator.outputs[0])
    shape, values = editor.shape(source), editor.values(axes)
    reversed_axes = {int(axis) % len(shape) for axis in values.ravel()} if values is not None else set()
    marks = [axis in reversed_axes for axis in range(len(shape))]
    merged = merge([shape], marks)
    if values is None or merged is None:
        return False
    kept = [axis for axis in range(len(shape)) if shape[axis] > 1]
    places = [place for place, (mark, _) in enumerate(groupby(kept, key=marks.__getitem__)) if mark]
    if not places:
        return folded.copy(source, output)
    return folded.apply(operator, [folded.read(source, merged[0]), editor.integers(places, output)], merged)


_ELEMENTWISE = """
ABS ADD ATAN2 CAST CEIL COS DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU
LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MINIMUM MUL NEG NOT_EQUAL POW RELU RELU6
RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT SELECT_V2 SIGN SIN SQRT SQUARE SQUARED_DIFFERENCE SUB TANH
"""
_REDUCTIONS = "MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM"
_FORMS: dict[str, Callable[[Folded, Any], bool]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
    "BATCH_MATMUL": _matrix_product,
    "CONCATENATION": _concatenation,
    "CUMSUM": _running_sum,
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "PACK": _pack,
    "PAD": _by_axis(0),
    "PADV2": _by_axis(0),
    "RESHAPE": _reshape,
    "REVERSE_V2": _reverse,
    "SLICE": _by_axis(0, -1),
    "SOFTMAX": _softmax,
    "STRIDED_SLICE": _by_axis(0, -1, 1),
    "TILE": _by_axis(1),
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
"""Functions that write an operator on tensors of four axes, and return False if no such form exists."""
