"""The survey's rows of `keras.ops`: numbers one by one."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import each, op
from tests.export.onnx.survey.values import (
    COUNTS,
    DIVISORS,
    INTEGERS,
    OTHER,
    OTHER_TRUTHS,
    POSITIVE,
    REAL,
    TRUTHS,
    UNIT,
    VECTOR,
    WILD,
    normal,
)

I64 = INTEGERS.astype("int64")
D64 = DIVISORS.astype("int64")


def _by_divisors(name, dtype):
    return lambda x: getattr(ops, name)(x, DIVISORS.astype(dtype))


ELEMENTWISE = {
    **each("abs absolute angle arcsinh arctan cbrt ceil conj conjugate copy cos cosh deg2rad erf erfc exp exp2", REAL),
    **each("expm1 fabs floor i0 imag isreal nan_to_num negative rad2deg real round sign signbit sin sinc sinh", REAL),
    **each("square tan tanh trunc", REAL),
    **each("log log10 log2 log1p reciprocal rsqrt sqrt", POSITIVE),
    **each("arccos arcsin arctanh erfinv", UNIT),
    "arccosh": op(ops.arccosh, POSITIVE + 1),
    **each("isfinite isinf isnan isneginf isposinf", WILD),
    **each("abs signbit nan_to_num sign round", WILD, suffix="wild"),
    **each("abs sign negative", INTEGERS, suffix="int"),
    **each("square", COUNTS, suffix="int"),
    **each("signbit", INTEGERS, suffix="int"),
    **each("sqrt exp", COUNTS, suffix="int"),
    **each("isnan", INTEGERS, suffix="int", static=True),
    "round decimals": op(ops.round, REAL, decimals=1),
    **each("floor ceil trunc round", INTEGERS, suffix="int"),
    **each("add arctan2 equal fmax fmin greater greater_equal heaviside less less_equal logaddexp", REAL, OTHER),
    **each("logaddexp2 maximum minimum multiply not_equal subtract nextafter isclose hypot allclose", REAL, OTHER),
    "arctan2 quadrants": op(ops.arctan2, WILD, WILD.T.copy()),
    **each("maximum fmax minimum fmin equal less", WILD, WILD.T.copy(), suffix="nan"),
    "logaddexp wild": op(ops.logaddexp, WILD, WILD.T.copy()),
    **each("maximum less add", INTEGERS, DIVISORS, suffix="int"),
    "minimum int64": op(ops.minimum, I64, D64),
    "equal bool": op(ops.equal, TRUTHS, OTHER_TRUTHS),
    "multiply int64": op(ops.multiply, I64, D64),
    "maximum broadcast": op(ops.maximum, REAL, REAL[:, :1]),
    **each("divide true_divide divide_no_nan floor_divide fmod mod", REAL, POSITIVE),
    "divide int": op(ops.divide, INTEGERS, DIVISORS),
    "divide_no_nan zero": op(ops.divide_no_nan, REAL, np.zeros_like(REAL)),
    **each("mod floor_divide fmod", REAL, OTHER + np.float32(0.3), suffix="real"),
    # The divisors are constants: a model that divides by an integer input cannot be tried on zeros.
    **{
        f"{name} int{bits}": op(_by_divisors(name, f"int{bits}"), INTEGERS.astype(f"int{bits}"), static=True)
        for name in ("mod", "floor_divide", "fmod")
        for bits in (32, 64)
    },
    "power": op(ops.power, POSITIVE, OTHER),
    "power int": op(ops.power, DIVISORS, COUNTS),
    "power negative": op(ops.power, REAL, np.full_like(REAL, 3)),
    **each("gcd lcm", COUNTS, DIVISORS, static=True),
    "ldexp": op(ops.ldexp, normal(4, 3), COUNTS),
    **each("bitwise_and bitwise_or bitwise_xor", INTEGERS, DIVISORS),
    **each("bitwise_not bitwise_invert", INTEGERS),
    **each("bitwise_left_shift bitwise_right_shift left_shift right_shift", INTEGERS, COUNTS),
    "bitwise_and int64": op(ops.bitwise_and, I64, D64),
    "right_shift int64": op(ops.right_shift, I64, COUNTS.astype("int64")),
    **each("logical_and logical_or logical_xor", TRUTHS, OTHER_TRUTHS),
    "logical_not": op(ops.logical_not, TRUTHS),
    "logical_and float": op(ops.logical_and, REAL, OTHER),
    "clip": op(ops.clip, REAL, x_min=-1.0, x_max=1.5),
    "clip int": op(ops.clip, INTEGERS, x_min=-3, x_max=4),
    "where": op(ops.where, TRUTHS, normal(4, 3), normal(4, 3)),
    "where one": op(ops.where, TRUTHS),
    "select": op(lambda a, b, x, y: ops.select([a, b], [x, y], 0.0), TRUTHS, OTHER_TRUTHS, normal(4, 3), normal(4, 3)),
    "cast": op(ops.cast, REAL, dtype="int32"),
    "cast bool": op(ops.cast, REAL, dtype="bool"),
    "cast int": op(ops.cast, INTEGERS, dtype="float32"),
    "saturate_cast": op(ops.saturate_cast, REAL * 100, dtype="int8"),
    "cast uint8": op(ops.cast, np.abs(REAL) * 30, dtype="uint8"),
    "stop_gradient": op(ops.stop_gradient, REAL),
    "view": op(ops.view, REAL, dtype="int32"),
    "isin": op(ops.isin, COUNTS, np.array([1, 3, 9], "int32"), static=True),
    "isin float": op(ops.isin, REAL, VECTOR, static=True),
    "polar": op(ops.polar, POSITIVE, REAL),
    "view_as_complex": op(ops.view_as_complex, normal(4, 2)),
    "view_as_real": op(lambda x: ops.view_as_real(ops.view_as_complex(x)), normal(4, 2)),
    "digitize": op(lambda x: ops.digitize(x, np.array([-1.0, 0.0, 1.0, 2.0], "float32")), REAL),
    "unravel_index": op(lambda i: ops.unravel_index(i, (4, 3, 6)), np.array([0, 5, 71, 18], "int32")),
}
