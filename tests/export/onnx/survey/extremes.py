"""The survey's rows of `keras.ops` at sizes above one recursion, of nothing, and of values that mean something."""

import keras
import numpy as np
from keras import ops

from tests.export.onnx.survey.case import each, op
from tests.export.onnx.survey.values import REAL, normal

EMPTY = np.zeros((4, 3, 0), "float32")
_LENGTH, _PLACES = np.array(4, "int32"), np.array([3, 1, 2, 3], "int32")
_SIZES = (1, 4, 5, 16, 33)


def _steps(length):
    return normal(2, length, 3)


@keras.saving.register_keras_serializable("survey")
def _recurrence(first, second):
    return first[0] * second[0], first[1] * second[0] + second[1]


LARGE = {
    **{f"associative_scan of {n}": op(lambda x: ops.associative_scan(ops.add, x, axis=1), _steps(n)) for n in _SIZES},
    **{
        f"associative_scan rows {n}": op(lambda x: ops.associative_scan(ops.add, x, True), normal(n, 3)) for n in _SIZES
    },
    "associative_scan pairs": op(
        lambda a, x: ops.associative_scan(_recurrence, (a, x), axis=1)[1], np.abs(_steps(33)) / 4, _steps(33)
    ),
    **{f"{n} of 33": op(getattr(ops, n), _steps(33), axis=1) for n in ("argsort", "cumsum", "median", "sort")},
}
NOTHING = {
    **each("all any argsort count_nonzero cumprod cumsum expand_dims flip", EMPTY, suffix="of nothing", axis=-1),
    **each("log_softmax logsumexp normalize prod softmax sort sum", EMPTY, suffix="of nothing", axis=-1),
    **each("exp gelu isnan negative ravel relu sign sin zeros_like", EMPTY, suffix="of nothing"),
    "concatenate nothing": op(lambda a, b: ops.concatenate([a, b], axis=-1), EMPTY, REAL),
    "matmul nothing": op(ops.matmul, EMPTY, EMPTY.transpose(0, 2, 1)),
    "einsum nothing": op(lambda a, b: ops.einsum("bld,bmd->blm", a, b), EMPTY, EMPTY),
    "tensordot nothing": op(lambda x: ops.tensordot(x, np.zeros((0, 5), "float32"), 1), EMPTY),
    "max initial of nothing": op(ops.max, EMPTY, axis=-1, initial=0.0),
    "pad nothing": op(ops.pad, EMPTY, pad_width=((0, 0), (0, 0), (1, 2))),
    "reshape nothing": op(ops.reshape, EMPTY, newshape=(4, 0, 3)),
    "transpose nothing": op(ops.transpose, EMPTY, axes=(2, 0, 1)),
    "stack nothing": op(lambda x: ops.stack([x, x], axis=1), EMPTY),
    "split nothing": op(lambda x: ops.split(x, 2, axis=-1), EMPTY),
    "take nothing": op(lambda x: ops.take(x, np.zeros((0,), "int32"), axis=1), REAL),
    "one_hot nothing": op(ops.one_hot, np.zeros((4, 0), "int32"), num_classes=3),
    "where nothing": op(lambda x: ops.where(x > 0, x, 1.0), EMPTY),
    "tile nothing": op(ops.tile, EMPTY, repeats=(1, 2, 1)),
    "repeat nothing": op(ops.repeat, REAL, repeats=0, axis=1),
}
VALUES = {
    "arange of a value": op(ops.arange, _LENGTH),
    "arange of none": op(ops.arange, np.array(0, "int32")),
    "ones of a value": op(lambda n: ops.ones((n, 3)), _LENGTH),
    "repeat by values": op(lambda x, n: ops.repeat(x, n, axis=0), REAL, _PLACES),
    "take_along_axis last": op(lambda x, n: ops.take_along_axis(x, (n - 1)[:, None, None], axis=1), REAL, _PLACES),
    "get_item by values": op(lambda x, a, b: x[:, a:b], REAL, np.array(1, "int32"), np.array(3, "int32")),
    "segment_sum by values": op(lambda x, i: ops.segment_sum(x, i, num_segments=5), REAL, _PLACES),
    "roll by a value": op(lambda x, n: ops.roll(x, n, axis=1), REAL, _LENGTH),
    "while_loop of a value": op(
        lambda x, n: ops.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * 1.5), (0, x))[1], REAL, _LENGTH
    ),
}
EXTREMES = {**LARGE, **NOTHING, **VALUES}
