"""Functions of numbers, counts and diagonals that LiteRT lacks, written with its sums, products and comparisons."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_pe.export.graph.sliding_windows import size_of

_LEAST_SQUARE = np.float32(1e-12)  # the least sum of squares in LiteRT's `L2_NORMALIZATION`
_SMALL = 1.0  # the largest number for which a hyperbolic sine is a polynomial
_SINE = tuple(1 / math.factorial(power) for power in (11, 9, 7, 5, 3, 1))
_LARGE = 1e9  # from here on, x * x + 1 and x * x - 1 are x * x in float32


def function_form(kind: str, given: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the function that writes an operator for LiteRT; None if no replacement is needed or known.

    Args:
        kind: The type of the operator.
        given: The inputs and attributes of the operator, by name.
    """
    if kind in _OF_NUMBERS:
        return _OF_NUMBERS[kind] if _dtype(given["x"]) == "float32" else None
    is_root = kind in ("Sqrt", "Rsqrt") or (kind == "Pow" and _is_half(given["y"]))
    if is_root and _is_of_squares(given["x"]):
        return _root_of_squares
    if kind == "FloorDiv":
        return _quotient_of_short_integers if _dtype(given["x"]) in ("int8", "uint8", "int16", "uint16") else None
    return _FORMS.get(kind)


def sign_bit(usual: Callable[..., Any], x: Any) -> Any:
    """Replaces `keras.ops.signbit`, which masks bits that neither ONNX nor LiteRT can read. NaN loses its sign bit."""
    import tensorflow as tf

    x = tf.convert_to_tensor(x)
    if not x.dtype.is_floating:
        return usual(x)
    x = tf.cast(x, "float32")
    return (x < 0) | (1 / x < 0)


def _dtype(x: Any) -> str:
    import tensorflow as tf

    return str(tf.convert_to_tensor(x).dtype.name)


def _static(x: Any) -> Any:
    """Returns the value of a tensor as an array; None if the value is unknown."""
    import tensorflow as tf

    return tf.get_static_value(tf.convert_to_tensor(x))


def _is_of_squares(x: Any) -> bool:
    """Whether a tensor is a sum of squares, perhaps with a number added or as the lower limit.

    The converter fuses a division by the root of such a tensor into `L2_NORMALIZATION`, which ignores the number. A
    lower limit that this operator has itself makes no difference.
    """
    import tensorflow as tf

    if not tf.is_tensor(x) or hasattr(x, "numpy"):
        return False
    operator = x.op
    if operator.type == "Maximum" and any(np.all(_static(each) == _LEAST_SQUARE) for each in operator.inputs):
        return False
    if operator.type in ("Add", "AddV2", "Maximum"):
        operator = next((each.op for each in operator.inputs if each.op.type == "Sum"), operator)
    return bool(operator.type == "Sum" and operator.inputs[0].op.type == "Square")


def _is_half(exponent: Any) -> bool:
    """Whether an exponent is 1/2 or -1/2, for which the converter writes a root."""
    number = _static(exponent)
    return number is not None and bool(np.all(np.abs(number) == 0.5))


def _root_of_squares(usual: Callable[..., Any], x: Any, **options: Any) -> Any:
    """Returns the root of the absolute value: an operator between the sum and the root prevents the fusion."""
    import tensorflow as tf

    return usual(x=tf.abs(x), **options)


def _asin(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    import tensorflow as tf

    return tf.atan2(x, tf.sqrt((1 - x) * (1 + x)))


def _acos(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    import tensorflow as tf

    return tf.atan2(tf.sqrt((1 - x) * (1 + x)), x)


def _sinh(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    """Computes small numbers by a polynomial, since the difference of two exponentials would lose their digits."""
    import tensorflow as tf

    size = tf.abs(x)
    near = tf.minimum(size, _SMALL)
    polynomial = tf.zeros_like(x)
    for factor in _SINE:
        polynomial = polynomial * near * near + factor
    half = _half_exponential(tf.maximum(size, _SMALL))
    return tf.sign(x) * tf.where(size <= _SMALL, near * polynomial, half - 0.25 / half)


def _cosh(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    import tensorflow as tf

    half = _half_exponential(tf.abs(x))
    return half + 0.25 / half


def _half_exponential(x: Any) -> Any:
    """Returns exp(x) / 2, which is finite for slightly larger numbers than exp(x)."""
    import tensorflow as tf

    root = tf.exp(x / 2)
    return 0.5 * root * root


def _asinh(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    import tensorflow as tf

    size = tf.abs(x)
    square = tf.square(tf.minimum(size, _LARGE))
    result = tf.math.log1p(size + square / (1 + tf.sqrt(square + 1)))
    return tf.sign(x) * tf.where(size < _LARGE, result, tf.math.log(size) + math.log(2))


def _acosh(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    import tensorflow as tf

    rest = tf.minimum(x, _LARGE) - 1
    result = tf.math.log1p(rest + tf.sqrt(rest) * tf.sqrt(rest + 2))  # NaN below 1
    return tf.where(x < _LARGE, result, tf.math.log(x) + math.log(2))


def _atanh(_: Callable[..., Any], x: Any, **__: Any) -> Any:
    import tensorflow as tf

    return 0.5 * (tf.math.log1p(x) - tf.math.log1p(-x))


def _cumulative_product(
    usual: Callable[..., Any], x: Any, axis: Any, exclusive: bool = False, reverse: bool = False, **options: Any
) -> Any:
    """Multiplies by the numbers one place before, then two, four and so on, for an axis of known length."""
    import tensorflow as tf

    axis = _static(axis)
    length = None if axis is None else x.shape[int(axis)]
    if length is None:
        return usual(x=x, axis=axis, exclusive=exclusive, reverse=reverse, **options)
    place = int(axis) % x.shape.rank
    first = (slice(None),) * place

    def shift(numbers: Any, by: int) -> Any:
        return tf.concat([tf.ones_like(numbers[(*first, slice(by))]), numbers[(*first, slice(length - by))]], place)

    x = tf.reverse(x, [place]) if reverse else x
    x = shift(x, 1) if exclusive and length > 0 else x
    by = 1
    while by < length:
        x, by = x * shift(x, by), 2 * by
    return tf.reverse(x, [place]) if reverse else x


def _quotient_of_short_integers(usual: Callable[..., Any], x: Any, y: Any, **options: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tf.math.floordiv(tf.cast(x, "int32"), tf.cast(y, "int32")), x.dtype)


def _left_shift(usual: Callable[..., Any], x: Any, y: Any, **options: Any) -> Any:
    import tensorflow as tf

    by = _static(y)
    return usual(x=x, y=y, **options) if by is None else x * tf.constant(2**by, x.dtype)


def _inverted_bits(usual: Callable[..., Any], x: Any, **options: Any) -> Any:
    return usual(x=x, **options) if _dtype(x).startswith("u") else -1 - x


def _counts(_: Callable[..., Any], input: Any, size: Any, weights: Any, binary_output: bool = False, **__: Any) -> Any:
    """Counts integers as sums of one-hot rows."""
    import tensorflow as tf

    weights = tf.convert_to_tensor(weights)
    rows = tf.one_hot(input, size, dtype=weights.dtype)
    if weights.shape.num_elements() != 0:
        rows = rows * tf.expand_dims(weights, -1)
    return (tf.reduce_max if binary_output else tf.reduce_sum)(rows, -2)


def _places(compare: str) -> Callable[..., Any]:
    """Returns the form of a search in sorted rows: a count of the numbers that come before."""

    def form(_: Callable[..., Any], sorted_inputs: Any, values: Any, out_type: Any = "int32", **__: Any) -> Any:
        import tensorflow as tf

        before = getattr(tf, compare)(tf.expand_dims(sorted_inputs, -2), tf.expand_dims(values, -1))
        return tf.reduce_sum(tf.cast(before, out_type), -1)

    return form


def _cross(_: Callable[..., Any], a: Any, b: Any, **__: Any) -> Any:
    import tensorflow as tf

    (a, b), (c, d) = ([tf.gather(x, order, axis=-1) for x in (a, b)] for order in ([1, 2, 0], [2, 0, 1]))
    return a * d - c * b


def _diagonal(usual: Callable[..., Any], input: Any, k: Any = 0, **options: Any) -> Any:
    """Returns one diagonal of matrices, as sums over rows in which the other numbers are zeros."""
    import tensorflow as tf

    offset = _static(k)
    if offset is None or offset.size > 1 or input.dtype == tf.bool:
        return usual(input=input, k=k, **options)
    offset = int(offset)
    rows, columns = size_of(input, input.shape.rank - 2), size_of(input, input.shape.rank - 1)
    first = max(-offset, 0)
    is_taken = tf.expand_dims(tf.range(rows), -1) + offset == tf.range(columns)
    taken = tf.reduce_sum(tf.where(is_taken, input, tf.zeros([], input.dtype)), -1)
    return taken[..., first : first + tf.minimum(rows - first, columns - max(offset, 0))]


def _set_shape(_: Callable[..., Any], input: Any, shape: Any, **__: Any) -> Any:
    """Returns a tensor with its declared shape. An export has found the sizes that a model takes."""
    import tensorflow as tf

    result = tf.identity(input)
    result.set_shape(shape)
    return result


_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asin": _asin,
    "Asinh": _asinh,
    "Atanh": _atanh,
    "Cosh": _cosh,
    "Sinh": _sinh,
}
_FORMS: dict[str, Callable[..., Any]] = {
    "Cross": _cross,
    "Cumprod": _cumulative_product,
    "DenseBincount": _counts,
    "EnsureShape": _set_shape,
    "Invert": _inverted_bits,
    "LeftShift": _left_shift,
    "LowerBound": _places("less"),
    "MatrixDiagPartV3": _diagonal,
    "UpperBound": _places("less_equal"),
}
