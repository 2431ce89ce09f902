"""The survey's rows of `keras.ops`: shapes, places and orders."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import op
from tests.export.onnx.survey.values import (
    COUNTS,
    DIVISORS,
    IMAGES,
    INTEGERS,
    OTHER,
    REAL,
    SIGNAL,
    TRUTHS,
    VECTOR,
    normal,
)


def _join_pair(name):
    return lambda a, b: getattr(ops, name)([a, b])


def _scatter(indices, values):
    return ops.scatter(indices, values, (8, 2))


PLACES, REPEATED = (np.array(places, "int32")[:, None] for places in ((1, 3, 6), (1, 3, 1)))
SHAPING = {
    "append": op(ops.append, REAL, OTHER, axis=1),
    "array": op(ops.array, REAL),
    "array_split": op(ops.array_split, REAL, indices_or_sections=2, axis=1),
    "split": op(ops.split, REAL, indices_or_sections=3, axis=2),
    "split at": op(ops.split, REAL, indices_or_sections=[1, 4], axis=2),
    "broadcast_to": op(lambda x: ops.broadcast_to(x, (ops.shape(x)[0], 3, 6)), normal(4, 1, 6)),
    "concatenate": op(lambda a, b: ops.concatenate([a, b], axis=1), REAL, OTHER),
    "concatenate dim0": op(lambda a, b: ops.concatenate([a, b], axis=0), INTEGERS, DIVISORS),
    "diag": op(ops.diag, normal(4)),
    "diag matrix": op(ops.diag, normal(4, 4), static=True),
    "diagflat": op(ops.diagflat, normal(4)),
    "diagonal": op(ops.diagonal, REAL, axis1=1, axis2=2),
    "diagonal offset": op(ops.diagonal, REAL, offset=1, axis1=1, axis2=2),
    "dsplit": op(ops.dsplit, REAL, indices_or_sections=2),
    "hsplit": op(ops.hsplit, REAL, indices_or_sections=3),
    "vsplit": op(ops.vsplit, REAL, indices_or_sections=2, static=True),
    **{n: op(_join_pair(n), normal(4, 3, 6), normal(4, 3, 6)) for n in ("dstack", "hstack", "vstack", "stack")},
    "expand_dims": op(ops.expand_dims, REAL, axis=1),
    "squeeze": op(ops.squeeze, normal(4, 1, 3), axis=1),
    "flip": op(ops.flip, REAL, axis=1),
    "flip all": op(ops.flip, REAL),
    "fliplr": op(ops.fliplr, REAL),
    "flipud": op(ops.flipud, REAL),
    "moveaxis": op(ops.moveaxis, REAL, source=1, destination=-1),
    "swapaxes": op(ops.swapaxes, REAL, axis1=1, axis2=2),
    "transpose": op(ops.transpose, REAL, axes=(0, 2, 1)),
    "transpose all": op(ops.transpose, REAL),
    "meshgrid": op(lambda a, b: ops.meshgrid(a, b), normal(3), normal(4)),
    "pad": op(ops.pad, REAL, pad_width=((0, 0), (1, 2), (0, 1))),
    "pad reflect": op(ops.pad, REAL, pad_width=((0, 0), (1, 2), (0, 1)), mode="reflect"),
    "pad symmetric": op(ops.pad, REAL, pad_width=((0, 0), (1, 2), (0, 1)), mode="symmetric"),
    "ravel": op(ops.ravel, REAL),
    "reshape": op(ops.reshape, REAL, newshape=(-1, 9, 2)),
    "rearrange": op(ops.rearrange, REAL, pattern="b l (h c) -> b h l c", h=2),
    "repeat": op(ops.repeat, REAL, repeats=2, axis=1),
    "repeat list": op(ops.repeat, REAL, repeats=np.array([1, 0, 2]), axis=1),
    "roll": op(ops.roll, REAL, shift=2, axis=1),
    "roll flat": op(ops.roll, REAL, shift=2),
    "roll negative": op(ops.roll, REAL, shift=-2, axis=0),
    "rot90": op(ops.rot90, REAL, axes=(1, 2)),
    "tile": op(ops.tile, REAL, repeats=(1, 2, 1)),
    "tril": op(ops.tril, REAL, k=1),
    "triu": op(ops.triu, REAL, k=-1),
    "tril dynamic": op(ops.tril, normal(4, 4), k=-1),
    "tri": op(lambda x: ops.add(ops.tri(3, 6, 1), x), REAL),
    "unstack": op(ops.unstack, REAL, num=3, axis=1),
    "vander": op(ops.vander, normal(4), N=3),
    "slice": op(ops.slice, REAL, start_indices=(1, 0, 2), shape=(2, 3, 3), static=True),
    "slice dynamic": op(lambda x, s: ops.slice(x, (s, 0, 0), (2, 3, 6)), REAL, np.array(1, "int32")),
    "slice_update": op(lambda x, u: ops.slice_update(x, (1, 0, 2), u), REAL, normal(2, 3, 3)),
    "get_item": op(ops.get_item, REAL, key=(slice(None), slice(None, None, -1), slice(1, 4))),
    "scatter": op(_scatter, PLACES, normal(3, 2)),
    "scatter repeated": op(_scatter, REPEATED, 1 + normal(3, 2)),
    "scatter_update": op(ops.scatter_update, normal(8, 2), PLACES, normal(3, 2)),
    **{
        f"scatter_update {name}": op(ops.scatter_update, normal(8, 2), REPEATED, normal(3, 2), reduction=name)
        for name in ("add", "max", "min", "mul")
    },
    "take": op(ops.take, REAL, np.array([2, 0, -1], "int32"), axis=1),
    "take flat": op(ops.take, REAL, np.array([2, 0, -1], "int32")),
    "take_along_axis": op(ops.take_along_axis, REAL, np.array([[[2, 0, -1]]] * 4, "int32").repeat(3, 1), axis=2),
    "sort": op(ops.sort, REAL),
    "sort axis": op(ops.sort, REAL, axis=1),
    "sort int": op(ops.sort, INTEGERS),
    "argsort": op(ops.argsort, OTHER),
    "argsort ties": op(ops.argsort, COUNTS),
    "argpartition": op(ops.argpartition, VECTOR, kth=3),
    "top_k": op(ops.top_k, REAL, k=2),
    "in_top_k": op(ops.in_top_k, np.array([1, 0, 2, 5], "int32"), normal(4, 6), k=2),
    "nonzero": op(ops.nonzero, TRUTHS),
    "searchsorted": op(ops.searchsorted, np.sort(VECTOR), normal(5), static=True),
    "searchsorted right": op(ops.searchsorted, np.sort(VECTOR), np.sort(VECTOR), side="right", static=True),
    "extract_sequences": op(ops.extract_sequences, SIGNAL, sequence_length=8, sequence_stride=4),
    "fold": op(ops.fold, normal(2, 12, 9), output_size=(4, 4), kernel_size=(2, 2)),
    "unfold": op(ops.unfold, normal(2, 3, 6, 6), kernel_size=(2, 2), static=True),
    "space_to_depth": op(ops.space_to_depth, IMAGES, block_size=2),
    "depth_to_space": op(ops.depth_to_space, normal(2, 4, 4, 8), block_size=2),
}
