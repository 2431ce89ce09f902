"""Slices, rolls, signs, contractions and integer products in the forms that LiteRT knows.

It takes a slice up to place 0, such as `x[..., :0]`, for one up to the end, and has no slice that adds two axes, no
roll and no look at the bits of a float. It multiplies no int8: as floats the products are the same, and so are sums of
up to a thousand.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_pe.export.graph.loops_over_tensors import loops_over_tensors
from keras_pe.export.graph.tensorflow_internals import replaced_slices
from keras_pe.export.model.watch.keras_internals import replaced_operations, replaced_tensorflow_functions

_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


@contextlib.contextmanager
def litert_forms() -> Iterator[None]:
    """Lets them be traced so, in this thread, and loops over tensors."""
    forms = replaced_tensorflow_functions({"einsum": _contraction, "matmul": _product, "roll": _roll})
    with loops_over_tensors(), replaced_slices(_slice), forms, replaced_operations(numpy={"signbit": _signbit}):
        yield


def _signbit(_: Callable[..., Any], x: Any) -> Any:
    """Returns what `keras.ops.signbit` does, but for the sign of what is no number."""
    import tensorflow as tf

    x = tf.convert_to_tensor(x)
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.dtype.is_floating else x < 0


def _roll(_: Callable[..., Any], x: Any, shift: Any, axis: Any) -> Any:
    """Returns what `tf.roll` does."""
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
    """Returns what `tf.einsum` does.

    The converter loses a batch that comes with the second factor, and two sizes that are not known unless each factor
    has an axis that the other has not, and one is summed: the rest are products of entries.
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
    """Returns a tensor with the axes of a result, in this order; those that it has not are 1."""
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
    if index.count(None) < 2 and not any(map(_is_of_nothing, index)):
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
    """Returns what stands between the brackets of a slice; nothing where it is not all known."""
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
