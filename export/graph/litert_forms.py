"""Slices, rolls, signs, infinities, contractions and integer products in forms that LiteRT can run.

LiteRT treats a slice that ends at 0, such as `x[..., :0]`, as a slice to the end. LiteRT lacks slices that add axes,
such as `x[..., None]`, and also roll and bitwise operations on floats. Its softplus overflows. LiteRT lacks int8
products: float32 computes them exactly, and also their sums of up to a thousand terms.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.graph.litert_complex import complex_form
from keras_pe.export.graph.litert_functions import function_form, sign_bit
from keras_pe.export.graph.litert_loops import InTensors, map_rows, recurrence
from keras_pe.export.graph.litert_recurrences import known_recurrences
from keras_pe.export.graph.litert_resizing import resize_form
from keras_pe.export.graph.litert_windows import (
    convolution,
    convolution_with_strides_and_gaps,
    depthwise_convolution,
    transposed_convolution,
    window_form,
)
from keras_pe.export.graph.tensorflow_internals import (
    replaced_depthwise_convolutions,
    replaced_operators,
    replaced_slices,
    replaced_softplus,
)
from keras_pe.export.graph.trace import convertible_control_flow
from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.watch.keras_internals import replaced_operations
from keras_pe.export.model.watch.temporary_patches import replaced_functions

_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


@contextlib.contextmanager
def litert_forms(
    layers: Sequence[Any] = (), recurrences: str = "loops", unfused: Unfused | None = None, has_fourier: bool = True
) -> Iterator[None]:
    """A context in which this thread traces models with these forms. Unrolled loops stay as they are.

    Args:
        layers: The model, then every layer in it.
        recurrences: "loops"; "unrolled" for copies of the steps where their number is known; "fused" for LSTM layers as
            one operator each and GRU layers of few operators; "fast" for these and several steps in a turn of a loop.
        unfused: Records the recurrent layers that stay loops, with the reasons.
        has_fourier: Whether the file may have LiteRT's Fourier transform.
    """
    import tensorflow as tf

    known, in_blocks = layers if recurrences in ("fused", "fast") else (), recurrences == "fast"
    forms: Mapping[str, Callable[..., Any]] = {"einsum": _contraction, "matmul": _product, "roll": _roll}
    with (
        convertible_control_flow(InTensors()),
        replaced_operations(
            core={"map": map_rows},
            nn={
                "conv": convolution,
                "conv_transpose": transposed_convolution,
                "_depthwise_conv_stride_dilation_decomposition": convolution_with_strides_and_gaps,
            },
            numpy={"signbit": sign_bit},
            recurrence=partial(recurrence, is_unrolled=recurrences == "unrolled", in_blocks=in_blocks),
        ),
        known_recurrences(known, unfused or Unfused(), in_blocks=in_blocks),
        replaced_slices(_slice),
        replaced_softplus(_softplus),
        replaced_depthwise_convolutions(depthwise_convolution),
        replaced_operators(partial(_form, has_fourier=has_fourier)),
        replaced_functions((tf, name, function) for name, function in forms.items()),
    ):
        yield


def _form(kind: str, given: Mapping[str, Any], has_fourier: bool) -> Callable[..., Any] | None:
    """Returns the function that writes an operator for LiteRT; None if no replacement is needed or known."""
    if kind == "IsInf":
        return _is_infinite
    if kind in ("Equal", "NotEqual") and any(_infinity(given[name]) for name in ("x", "y")):
        return _equals_infinity if kind == "Equal" else _differs_from_infinity
    found = complex_form(kind, given, has_fourier) or resize_form(kind, given) or window_form(kind, given)
    return found or function_form(kind, given)


def _is_infinite(usual: Callable[..., Any], x: Any, **attributes: Any) -> Any:
    """Returns where numbers are infinite. LiteRT's converter replaces `IsInf` by False, so compare with the maximum."""
    import tensorflow as tf

    return tf.abs(x) > x.dtype.max


def _equals_infinity(usual: Callable[..., Any], x: Any, y: Any, **attributes: Any) -> Any:
    """Returns where numbers equal the infinity that they are compared with.

    The sign is compared separately. LiteRT's converter replaces `x < min` by False, and likewise `-x > max`.
    """
    import tensorflow as tf

    number, infinity = (x, _infinity(y)) if _infinity(y) else (y, _infinity(x))
    number = tf.convert_to_tensor(number)
    has_sign = number > 0 if infinity > 0 else number < 0
    return tf.logical_and(_is_infinite(usual, number), has_sign)


def _differs_from_infinity(usual: Callable[..., Any], **given: Any) -> Any:
    import tensorflow as tf

    return tf.logical_not(_equals_infinity(usual, **given))


def _infinity(value: Any) -> float:
    """Returns the infinity that a scalar tensor is known to be; 0 if the tensor is finite, unknown or not a scalar."""
    import tensorflow as tf

    if tf.is_tensor(value) and not hasattr(value, "numpy") and value.op.type == "Neg":
        return -_infinity(value.op.inputs[0])
    number = tf.get_static_value(value) if tf.is_tensor(value) else value
    is_float = isinstance(number, float | np.floating) or (isinstance(number, np.ndarray) and number.dtype.kind == "f")
    return float(number) if is_float and np.ndim(number) == 0 and np.isinf(number) else 0.0


def _softplus(_: Callable[..., Any], x: Any, name: str | None = None) -> Any:
    """Replaces `tf.math.softplus`. The converter writes log(1 + exp(x)), which is infinite from x = 89."""
    import tensorflow as tf

    return tf.add(tf.maximum(x, tf.zeros([], x.dtype)), tf.math.log1p(tf.exp(-tf.abs(x))), name)


def _roll(_: Callable[..., Any], x: Any, shift: Any, axis: Any) -> Any:
    """Replaces `tf.roll`."""
    import tensorflow as tf

    shifts, axes = (np.atleast_1d(each) if tf.get_static_value(each) is not None else each for each in (shift, axis))
    for number, place in enumerate(axes):
        first = (slice(None),) * (int(place) % x.shape.rank)
        size = tf.shape(x)[place] if x.shape[place] is None else x.shape[place]
        cut = -shifts[number] % size
        x = tf.concat([x[(*first, slice(cut, None))], x[(*first, slice(None, cut))]], int(place))
    return x


def _product(usual: Callable[..., Any], a: Any, b: Any, *args: Any, output_type: Any = None, **options: Any) -> Any:
    import tensorflow as tf

    if output_type is None:
        return usual(a, b, *args, **options)
    return tf.cast(usual(tf.cast(a, "float32"), tf.cast(b, "float32"), *args, **options), output_type)


def _contraction(usual: Callable[..., Any], equation: str, *factors: Any, **options: Any) -> Any:
    """Replaces `tf.einsum`.

    The converter loses a batch axis that only the second factor has, so the factor with more axes comes first. The
    converter also loses unknown sizes, unless an axis is summed and each factor has an axis that the other lacks. All
    other contractions are written as elementwise products and a sum.
    """
    import tensorflow as tf

    named, _, result = equation.replace(" ", "").partition("->")
    terms = named.split(",")
    if len(factors) != 2 or not result or "." in named or any(len(set(term)) < len(term) for term in terms):
        return usual(equation, *factors, **options)
    summed = "".join(sorted(set(named) - {*result, ","}))
    if not summed or set(terms[0]) >= set(terms[1]) or set(terms[0]) <= set(terms[1]):
        first, second = (_spread(x, term, result + summed) for x, term in zip(factors, terms, strict=True))
        return tf.reduce_sum(first * second, range(len(result), len(result + summed))) if summed else first * second
    (more, longer), (less, shorter) = sorted(zip(terms, factors, strict=True), key=lambda each: -len(each[0]))
    return usual(f"{more},{less}->{result}", longer, shorter, **options)


def _spread(x: Any, term: str, result: str) -> Any:
    """Returns a tensor with the axes of a result, in the order of the result. A missing axis has size 1."""
    import tensorflow as tf

    x = tf.transpose(x, [term.index(name) for name in result if name in term])
    for place, name in enumerate(result):
        if name not in term:
            x = tf.expand_dims(x, place)
    return x


def _slice(
    usual: Callable[..., Any], tensor: Any, begin: Any, end: Any, strides: Any = None, *args: Any, **options: Any
) -> Any:
    import tensorflow as tf

    index = [] if strides is None or args else _index(begin, end, strides, options)
    if None not in index and not any(map(_is_of_nothing, index)):
        return usual(tensor, begin, end, strides, *args, **options)
    kept = [slice(1, 1) if _is_of_nothing(part) else part for part in index if part is not None]
    result, place = tensor[tuple(kept)], 0
    for part in index:
        if part is None:
            result = tf.expand_dims(result, place)
        if part is Ellipsis:
            place += tensor.shape.rank - len(kept) + 1
        elif not isinstance(part, int):
            place += 1
    return result


def _index(begin: Any, end: Any, strides: Any, masks: Mapping[str, int]) -> list[Any]:
    """Returns the index between the brackets of a slice; an empty list if a bound is unknown."""
    import tensorflow as tf

    places = [tf.get_static_value(each) for each in (begin, end, strides)]
    if any(each is None for each in places):
        return []
    index: list[Any] = []
    for axis, (first, last, step) in enumerate(zip(*(each.tolist() for each in places), strict=True)):
        is_set = {name: bool(masks.get(f"{name}_mask", 0) >> axis & 1) for name in _MASKS}
        if is_set["ellipsis"]:
            index.append(Ellipsis)
        elif is_set["new_axis"]:
            index.append(None)
        elif is_set["shrink_axis"]:
            index.append(first)
        else:
            index.append(slice(None if is_set["begin"] else first, None if is_set["end"] else last, step))
    return index


def _is_of_nothing(part: Any) -> bool:
    return isinstance(part, slice) and part.stop == 0 and part.step > 0
