"""The survey's rows of `keras.ops`: arrays from nothing or from a shape."""

from keras import ops

from tests.export.onnx.survey.case import op
from tests.export.onnx.survey.values import POSITIVE, REAL, SQUARE, normal


def n0(x):
    return ops.shape(x)[0]


CREATION = {
    "arange": op(lambda x: ops.arange(n0(x)), normal(5, 2)),
    "arange float": op(lambda x: ops.arange(0.0, ops.cast(n0(x), "float32"), 0.5), normal(5, 2)),
    **{
        n: op(lambda x, n=n: getattr(ops, n)(7) * x, normal(4, 7))
        for n in ["bartlett", "blackman", "hamming", "hanning"]
    },
    "kaiser": op(lambda x: ops.kaiser(7, 5.0) * x, normal(4, 7), static=True),
    "empty_like": op(ops.empty_like, REAL),
    "empty": op(lambda x: ops.shape(ops.empty((n0(x), 3)))[1] + ops.cast(x, "int32"), REAL),
    "eye": op(lambda x: ops.eye(n0(x)), normal(4)),
    "identity": op(lambda x: ops.identity(3) + x, SQUARE),
    "full": op(lambda x: ops.full((n0(x), 3), 2.5), REAL),
    "full_like": op(ops.full_like, REAL, fill_value=2),
    "ones": op(lambda x: ops.ones((n0(x), 3)), REAL),
    "zeros": op(lambda x: ops.zeros((n0(x), 3)), REAL),
    "ones_like": op(ops.ones_like, REAL),
    "zeros_like": op(ops.zeros_like, REAL),
    "linspace": op(lambda a, b: ops.linspace(a, b, 5), normal(4), normal(4)),
    "linspace broadcast": op(lambda a, b: ops.linspace(a, b, 5), normal(4, 1), normal(4, 3)),
    "logspace": op(lambda a, b: ops.logspace(a, b, 5), normal(4), normal(4)),
    "geomspace": op(lambda a, b: ops.geomspace(a, b, 5), POSITIVE[:, 0, 0], POSITIVE[:, 0, 1]),
    "convert_to_tensor": op(ops.convert_to_tensor, REAL),
    "shape": op(lambda x: ops.convert_to_tensor(ops.shape(x)), REAL),
    "size": op(ops.size, REAL),
    "ndim": op(lambda x: ops.convert_to_tensor(ops.ndim(x)) + ops.cast(x, "int32"), REAL),
}
