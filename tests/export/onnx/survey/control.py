"""The survey's rows of `keras.ops`: branches, loops and gradients."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import op
from tests.export.onnx.survey.values import REAL

CONTROL = {
    "cond": op(lambda p, x: ops.cond(p, lambda: x + 1.0, lambda: x * 2.0), np.array(True), REAL),
    "switch": op(lambda i, x: ops.switch(i, [lambda t: t + 1.0, lambda t: t * 2.0], x), np.array(1, "int32"), REAL),
    "fori_loop": op(lambda x: ops.fori_loop(0, 3, lambda i, s: s * 2.0, x), REAL),
    "while_loop": op(lambda x: ops.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 2.0), (0, x))[1], REAL),
    "scan": op(lambda x: ops.scan(lambda c, t: (c + t, c * t), ops.zeros((3, 6)), x)[1], REAL),
    "map": op(lambda x: ops.map(lambda t: t * 2.0 + 1.0, x), REAL),
    "vectorized_map": op(lambda x: ops.vectorized_map(lambda t: ops.sum(t) * t, x), REAL),
    "associative_scan": op(lambda x: ops.associative_scan(lambda a, b: a + b, x, axis=1), REAL),
    "associative_scan 6": op(lambda x: ops.associative_scan(ops.logaddexp, x, axis=2, reverse=True), REAL),
    "custom_gradient": op(lambda x: ops.custom_gradient(lambda t: (t * 2.0, lambda *a, upstream: upstream))(x), REAL),
    "jvp": op(lambda x: ops.jvp(lambda t: ops.sin(t) * t, (x,), (ops.ones_like(x),)), REAL),
    "diff n": op(ops.diff, REAL, n=2),
}
