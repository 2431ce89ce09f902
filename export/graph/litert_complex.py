"""The replacement of complex tensors by pairs of real tensors, since LiteRT has no complex arithmetic.

The two parts of a complex tensor are the inputs of the operator `Complex` that made the tensor. Every reader takes the
parts, so the converter finds complex tensors only at the inputs and outputs of the model.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_pe.export.graph.litert_fourier import transform, without_negative_zeros

_Parts = tuple[Any, Any]

# Operators that move, select, add or subtract numbers: they apply to each part separately.
_BY_PART = re.compile(
    "Add|AddN|AddV2|BroadcastTo|Concat|ConcatV2|Cumsum|DepthToSpace|EnsureShape|ExpandDims|Fill|Gather|"
    "GatherNd|GatherV2|Identity|MatrixDiag|MatrixDiagV3|Mean|MirrorPad|Neg|Pack|Pad|PadV2|"
    "PreventGradient|Reshape|ReverseV2|Roll|ScatterNd|Select|SelectV2|Slice|Snapshot|SpaceToDepth|"
    "Split|SplitV|Squeeze|StopGradient|StridedSlice|Sub|Sum|TensorScatterUpdate|Tile|Transpose|Unpack|"
    "ZerosLike"
)
_TOLD_BY_REAL = ("Rank", "Shape", "Size")


def complex_form(kind: str, given: Mapping[str, Any], has_fourier: bool) -> Callable[..., Any] | None:
    """Returns the function that writes an operator with real tensors instead of complex ones; None if it needs none.

    Args:
        kind: The type of the operator.
        given: The inputs and attributes of the operator, by name.
        has_fourier: Whether the file may have LiteRT's Fourier transform.
    """
    taken = [x for value in given.values() for x in _each(value) if _is_complex(x)]
    if re.fullmatch("I?R?FFT(2D|3D)?", kind):
        return _transform_form(kind, given, has_fourier)
    if kind in _OF_REALS:
        return _OF_REALS[kind](kind, given)
    if not taken:
        return None
    if kind in _OF_TRANSFORMED and _known_parts(taken[0]) is None:
        return _OF_TRANSFORMED[kind]
    if _BY_PART.fullmatch(kind):
        return _by_part
    return _apply_to_real_part if kind in _TOLD_BY_REAL else _FORMS.get(kind)


def _each(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _is_complex(x: Any) -> bool:
    import tensorflow as tf

    if tf.is_tensor(x):
        return bool(tf.as_dtype(x.dtype).is_complex)  # the dtype of a Keras variable is a str
    return isinstance(x, np.ndarray | complex) and bool(np.iscomplexobj(x))


def _known_parts(x: Any) -> _Parts | None:
    """Returns the two parts of a constant or of the output of `Complex`; None for any other complex tensor."""
    import tensorflow as tf

    value = tf.get_static_value(x) if tf.is_tensor(x) else np.asarray(x)
    if value is not None:
        return tf.constant(value.real), tf.constant(value.imag)
    operator = getattr(x, "op", None)
    return tuple(operator.inputs) if operator is not None and operator.type == "Complex" else None


def _parts(x: Any) -> _Parts:
    import tensorflow as tf

    options = {"input": x, "Tout": x.dtype.real_dtype} if tf.is_tensor(x) else {}
    return _known_parts(x) or (tf.raw_ops.Real(**options), tf.raw_ops.Imag(**options))


def _whole(real: Any, imaginary: Any) -> Any:
    import tensorflow as tf

    return tf.complex(real, imaginary)


def _part(value: Any, index: int) -> Any:
    """Returns an argument with each complex tensor replaced by its real part (0) or imaginary part (1)."""
    if isinstance(value, list | tuple):
        return [_part(each, index) for each in value]
    return _parts(value)[index] if _is_complex(value) else value


def _by_part(write: Callable[..., Any], **given: Any) -> list[Any]:
    halves = [write(**{name: _part(value, index) for name, value in given.items()}) for index in (0, 1)]
    return [_whole(*each) for each in zip(*halves, strict=True)]


def _apply_to_real_part(write: Callable[..., Any], **given: Any) -> Any:
    return write(**{name: _part(value, 0) for name, value in given.items()})


def _broadcast_form(_: str, given: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the form of `Complex` that broadcasts its parts; None if the parts have equal shapes."""
    real, imaginary = given["real"].shape, given["imag"].shape
    if real.rank is not None and real.as_list() == imaginary.as_list():
        return None
    return _spread


def _spread(write: Callable[..., Any], real: Any, imag: Any, **given: Any) -> Any:
    import tensorflow as tf

    shape = tf.broadcast_dynamic_shape(tf.shape(real), tf.shape(imag))
    return write(real=tf.broadcast_to(real, shape), imag=tf.broadcast_to(imag, shape), **given)


def _cast_form(_: str, given: Mapping[str, Any]) -> Callable[..., Any] | None:
    import tensorflow as tf

    return _cast if _is_complex(given["x"]) or tf.as_dtype(given["DstT"]).is_complex else None


def _cast(write: Callable[..., Any], x: Any, DstT: Any, **_: Any) -> Any:  # noqa: N803 - TensorFlow's name
    import tensorflow as tf

    target = tf.as_dtype(DstT)
    real, *imaginary = _parts(x) if _is_complex(x) else (x,)
    if not target.is_complex:
        return tf.cast(real, target)
    real, *imaginary = (tf.cast(each, target.real_dtype) for each in (real, *imaginary))
    return _whole(real, imaginary[0] if imaginary else tf.zeros_like(real))


def _transform_form(kind: str, given: Mapping[str, Any], has_operator: bool) -> Callable[..., Any] | None:
    sums = transform(kind, given, has_operator)
    if sums is None:
        return None

    def form(_: Callable[..., Any], input: Any, **__: Any) -> Any:
        real, imaginary = sums(*(_parts(input) if _is_complex(input) else (input, None)))
        return real if imaginary is None else _whole(real, imaginary)

    return form


def _times(first: _Parts, second: _Parts, multiply: Callable[[Any, Any], Any]) -> Any:
    """Returns the complex product of two tensors under any bilinear function of real tensors."""
    (a, b), (c, d) = first, second
    return _whole(multiply(a, c) - multiply(b, d), multiply(a, d) + multiply(b, c))


def _product(_: Callable[..., Any], x: Any, y: Any, **__: Any) -> Any:
    return _times(_parts(x), _parts(y), lambda a, b: a * b)


def _matrix_product(write: Callable[..., Any], **given: Any) -> Any:
    names = [name for name in ("a", "b", "x", "y") if name in given]
    factors = [_parts(given.pop(name)) for name in names]
    # An adjoint is a conjugated transposition. The operator transposes the real tensors, so only the sign is left.
    signs = [-1 if given.get(f"adj_{name}") else 1 for name in names]
    first, second = ((real, sign * imaginary) for (real, imaginary), sign in zip(factors, signs, strict=True))
    return _times(first, second, lambda a, b: write(**dict(zip(names, (a, b), strict=True)), **given)[0])


def _contraction(write: Callable[..., Any], inputs: Any, **given: Any) -> Any:
    if len(inputs) != 2:
        return write(inputs=inputs, **given)
    first, second = map(_parts, inputs)
    return _times(first, second, lambda a, b: write(inputs=[a, b], **given)[0])


def _quotient(_: Callable[..., Any], x: Any, y: Any, **__: Any) -> Any:
    return _times(_parts(x), _inverse(_parts(y)), lambda a, b: a * b)


def _inverse(parts: _Parts) -> _Parts:
    """Returns the reciprocal of a complex tensor. Scaling by the larger part first keeps squares from overflowing."""
    side = _longer_side(parts)
    real, imaginary = (part / side for part in parts)
    square = real * real + imaginary * imaginary
    return real / square / side, -imaginary / square / side


def _longer_side(parts: _Parts) -> Any:
    """Returns the absolute value of the larger part, with 1 instead of zero and infinity."""
    import tensorflow as tf

    longer = tf.maximum(*map(tf.abs, parts))
    return tf.where((longer > 0) & (longer < np.inf), longer, tf.ones_like(longer))


def _length(parts: _Parts) -> Any:
    import tensorflow as tf

    side = _longer_side(parts)
    real, imaginary = (part / side for part in parts)
    return side * tf.sqrt(real * real + imaginary * imaginary)


def _angle(parts: _Parts) -> Any:
    import tensorflow as tf

    return tf.math.atan2(parts[1], parts[0])


def _exponential(parts: _Parts) -> Any:
    import tensorflow as tf

    size = tf.exp(parts[0])
    return _whole(size * tf.cos(parts[1]), size * tf.sin(parts[1]))


def _logarithm(parts: _Parts) -> Any:
    import tensorflow as tf

    return _whole(tf.math.log(_length(parts)), _angle(parts))


def _form_of_one_tensor(form: Callable[[_Parts], Any]) -> Callable[..., Any]:
    """Returns the form of an operator with one tensor, which TensorFlow names `x` or `input`."""
    return lambda write, x=None, input=None, **given: form(_parts(input if x is None else x))


_FORMS: dict[str, Callable[..., Any]] = {
    "BatchMatMul": _matrix_product,
    "BatchMatMulV2": _matrix_product,
    "BatchMatMulV3": _matrix_product,
    "Div": _quotient,
    "Einsum": _contraction,
    "MatMul": _matrix_product,
    "Mul": _product,
    "RealDiv": _quotient,
    "Angle": _form_of_one_tensor(_angle),
    "ComplexAbs": _form_of_one_tensor(_length),
    "Conj": _form_of_one_tensor(lambda parts: _whole(parts[0], -parts[1])),
    "Exp": _form_of_one_tensor(_exponential),
    "Imag": _form_of_one_tensor(lambda parts: parts[1]),
    "Inv": _form_of_one_tensor(lambda parts: _whole(*_inverse(parts))),
    "Log": _form_of_one_tensor(_logarithm),
    "OnesLike": _form_of_one_tensor(lambda parts: _whole(parts[0] * 0 + 1, parts[1] * 0)),
    "Real": _form_of_one_tensor(lambda parts: parts[0]),
    "Reciprocal": _form_of_one_tensor(lambda parts: _whole(*_inverse(parts))),
    "Square": _form_of_one_tensor(lambda parts: _times(parts, parts, lambda a, b: a * b)),
}
# LiteRT has these operators, but only for the outputs of its own Fourier transform.
_OF_TRANSFORMED: dict[str, Callable[..., Any] | None] = {
    "ComplexAbs": None,
    "Imag": lambda write, **given: without_negative_zeros(write(**given)[0]),
    "Real": None,
}
_OF_REALS: dict[str, Callable[[str, Mapping[str, Any]], Callable[..., Any] | None]] = {
    "Cast": _cast_form,
    "Complex": _broadcast_form,
}
