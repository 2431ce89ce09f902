"""GATHER and GATHER_ND of a LiteRT file as GATHER by indices of one axis."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Array, Editor


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


def write_gather_of_flags(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a GATHER, of truth values as float32 numbers that are compared with zero."""
    source, indices = map(int, operator.inputs)
    if editor.dtype(source) != "bool":
        return write_gather(editor, operator, output)
    numbers, found = (editor.tensor(editor.shape(each), each, dtype="float32") for each in (source, output))
    editor.add("CAST", [source], [numbers])
    gather = SimpleNamespace(inputs=[numbers, indices], builtinOptions=operator.builtinOptions)
    if not write_gather(editor, gather, found):
        editor.add_like(operator, [numbers, indices], [found])
    zero = editor.constant(np.zeros((), np.float32), output)
    editor.add("NOT_EQUAL", [found, zero], [output], "NotEqualOptions")
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
