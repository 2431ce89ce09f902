"""GATHER and GATHER_ND of a LiteRT file as GATHER by indices of one axis, or as products and slices."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Array, Editor

_MOST_SLICES = 16
_MOST_FLAGS = 2**22  # 16 MiB


def write_gather(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a GATHER by 1-D indices."""
    source, indices = map(int, operator.inputs)
    shape, rank = editor.shape(source), len(editor.shape(indices))
    batches, axis = operator.builtinOptions.batchDims % (rank + 1), operator.builtinOptions.axis % len(shape)
    if batches and axis != batches:
        return False
    if rank == 1 and not batches and editor.dtype(indices) == "int32":
        return False
    count = int(np.prod(shape[:batches]))
    flat = _narrow(editor, indices)
    if batches:
        starts = np.arange(count, dtype=np.int32)[:, None] * np.int32(shape[axis])
        flat = editor.reshape(flat, (count, editor.size(indices) // count))
        flat = _sum(editor, flat, starts)
    flat = editor.reshape(flat, (editor.size(indices),))
    axis -= batches
    rows = editor.reshape(source, (count * shape[batches], *shape[batches + 1 :])) if batches else source
    _gather_rows(editor, rows, flat, axis, output)
    return True


def write_gather_nd(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a GATHER of rows, whose numbers follow from the indices."""
    source, indices = map(int, operator.inputs)
    shape, depth = editor.shape(source), editor.shape(indices)[-1]
    if not depth:
        return False
    steps = np.cumprod((1, *shape[depth - 1 : 0 : -1]))[::-1].astype(np.int32)
    places = editor.reshape(_narrow(editor, indices), (editor.size(indices) // depth, depth))
    values = editor.values(places)
    if values is not None:
        flat = editor.constant((values * steps).sum(-1, dtype=np.int32), output)
    else:
        scaled = editor.tensor(editor.shape(places), places)
        editor.add("MUL", [places, editor.constant(steps[None], output)], [scaled], "MulOptions")
        flat = editor.tensor(editor.shape(places)[:1], places)
        editor.add("SUM", [scaled, editor.integers([1], output)], [flat], "ReducerOptions", keepDims=False)
    rows = editor.reshape(source, (int(np.prod(shape[:depth])), int(np.prod(shape[depth:]))))
    _gather_rows(editor, rows, flat, 0, output)
    return True


def write_lookup(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a GATHER without this operator: rows of a table as a product, and known places as slices."""
    source, indices = map(int, operator.inputs)
    shape, table, places = editor.shape(source), editor.values(source), editor.values(indices)
    axis = operator.builtinOptions.axis % len(shape)
    if operator.builtinOptions.batchDims or editor.dtype(source) != "float32":
        return False
    if places is not None and places.size <= _MOST_SLICES:
        return _write_rows(editor, source, axis, places.ravel().tolist(), output)
    count, rows = editor.size(indices), shape[axis]
    if table is None or math.prod(shape[:axis]) > 1 or count * rows > _MOST_FLAGS or not np.isfinite(table).all():
        return False
    flags = _flags(editor, _narrow(editor, indices), count, rows, output)
    weights = editor.constant(np.ascontiguousarray(table.reshape(rows, -1).T), source)
    found = editor.tensor((count, table.size // rows), output)
    editor.add("FULLY_CONNECTED", [flags, weights, -1], [found], "FullyConnectedOptions")
    editor.reshape(found, editor.shape(output), output)
    return True


def _flags(editor: Editor, indices: int, count: int, rows: int, like: int) -> int:
    """Returns 1.0 at the place of each index, in a row of zeros. The lesser of two opposite numbers is at most 0."""
    column, numbers = editor.reshape(indices, (count, 1)), editor.constant(np.arange(rows, dtype=np.int32)[None], like)
    parts = [editor.tensor((count, rows), like, "int32") for _ in range(5)]
    editor.add("SUB", [column, numbers], parts[:1], "SubOptions")
    editor.add("SUB", [numbers, column], parts[1:2], "SubOptions")
    editor.add("MINIMUM", parts[:2], parts[2:3], "MaximumMinimumOptions")
    limit, one = (editor.constant(np.array(value, np.int32), like) for value in (-1, 1))
    editor.add("MAXIMUM", [parts[2], limit], parts[3:4], "MaximumMinimumOptions")
    editor.add("ADD", [parts[3], one], parts[4:], "AddOptions")
    flags = editor.tensor((count, rows), like, "float32")
    editor.add("CAST", parts[4:], [flags], "CastOptions")
    return flags


def _write_rows(editor: Editor, source: int, axis: int, places: Sequence[int], output: int) -> bool:
    shape, rows = editor.shape(source), list[int]()
    size = (*shape[:axis], 1, *shape[axis + 1 :])
    for place in places:
        begin = [place if each == axis else 0 for each in range(len(shape))]
        rows.append(editor.tensor(size, output))
        editor.add("SLICE", [source, editor.integers(begin, output), editor.integers(size, output)], [rows[-1]])
    joined = editor.tensor((*shape[:axis], len(rows), *shape[axis + 1 :]), output)
    editor.add("CONCATENATION", rows, [joined], "ConcatenationOptions", axis=axis)
    editor.reshape(joined, editor.shape(output), output)
    return True


def _gather_rows(editor: Editor, rows: int, places: int, axis: int, output: int) -> None:
    shape = editor.shape(rows)
    shape = (*shape[:axis], *editor.shape(places), *shape[axis + 1 :])
    found = output if editor.shape(output) == shape else editor.tensor(shape, output)
    editor.add("GATHER", [rows, places], [found], "GatherOptions", axis=axis)
    if found != output:
        editor.reshape(found, editor.shape(output), output)


def _narrow(editor: Editor, indices: int) -> int:
    """Returns indices as int32. Indices of a tensor of known shape fit."""
    values = editor.values(indices)
    if editor.dtype(indices) == "int32":
        return indices
    if values is not None:
        return editor.constant(values.astype(np.int32), indices)
    narrow = editor.tensor(editor.shape(indices), indices, "int32")
    editor.add("CAST", [indices], [narrow])
    return narrow


def _sum(editor: Editor, number: int, addend: Array) -> int:
    values = editor.values(number)
    if values is not None:
        return editor.constant(values + addend, number)
    result = editor.tensor(editor.shape(number), number)
    editor.add("ADD", [number, editor.constant(addend, number)], [result], "AddOptions")
    return result
