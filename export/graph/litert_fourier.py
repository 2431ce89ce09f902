"""Fourier transforms as matrix products. LiteRT transforms only real tensors whose length is a power of two."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

_Sums = Callable[[Any, Any], tuple[Any, Any]]

# The entries of the largest matrix. The file stores 16 MiB for each of its two parts.
_LARGEST_MATRIX = 2048 * 2050


def transform(kind: str, given: Mapping[str, Any], has_operator: bool) -> _Sums | None:
    """Returns a function from the real and imaginary parts of a tensor to the parts of its transform.

    The imaginary part is None for a real tensor, both as argument and as result.

    Args:
        kind: The type of the operator, such as "IRFFT2D".
        given: The inputs and attributes of the operator, by name.
        has_operator: Whether the file may have LiteRT's operator.

    Returns:
        The function; None if LiteRT has an operator, or a length is unknown or too large.
    """
    import tensorflow as tf

    inverse, real, count = re.fullmatch(r"(I?)(R?)FFT(\d?)D?", kind).groups()  # type: ignore[union-attr]
    places = range(-int(count or 1), 0)
    shape = given["input"].shape
    if shape.rank is None or any(shape[place] is None for place in places):
        return None
    sizes = [int(shape[place]) for place in places]
    lengths = tf.get_static_value(tf.convert_to_tensor(given["fft_length"])) if real else sizes
    if lengths is None or min(lengths) < 1 or max(lengths) ** 2 > _LARGEST_MATRIX:
        return None
    is_power_of_two = all(length & (length - 1) == 0 for length in lengths)
    if has_operator and real and not inverse and is_power_of_two and len(lengths) < 3:
        return None
    axes = list(zip(places, sizes, map(int, lengths), strict=True))
    if not real:
        return partial(_along_axes, axes, bool(inverse))
    return partial(_to_real if inverse else _from_real, axes)


def without_negative_zeros(x: Any) -> Any:
    """Replaces -0.0 by 0.0, as TensorFlow's transforms do: the sign of zero changes the angle."""
    import tensorflow as tf

    return tf.where(tf.equal(x, 0), tf.zeros_like(x), x)


def _along_axes(axes: Any, is_inverse: bool, real: Any, imaginary: Any) -> tuple[Any, Any]:
    """Returns the transform of a complex tensor along axes, each an (axis, size, length of the transform)."""
    for place, size, length in axes:
        waves = _waves(min(size, length), length, length, is_inverse)
        real, imaginary = _times(real, imaginary, waves, place)
    return real, imaginary


def _from_real(axes: Any, real: Any, _: Any) -> tuple[Any, Any]:
    *outer, (place, size, length) = axes
    waves = _waves(min(size, length), length // 2 + 1, length, is_inverse=False)
    imaginary = without_negative_zeros(_along(real, waves.imag, place))
    return _along_axes(outer, False, _along(real, waves.real, place), imaginary)


def _to_real(axes: Any, real: Any, imaginary: Any) -> tuple[Any, Any]:
    *outer, (place, size, length) = axes
    real, imaginary = _along_axes(outer, True, real, imaginary)
    waves = _waves(min(size, length // 2 + 1), length, length, is_inverse=True)
    waves[1 : (length + 1) // 2] *= 2  # the omitted half of the spectrum has the conjugates of these terms
    return _along(real, waves.real, place) - _along(imaginary, waves.imag, place), None


def _waves(terms: int, count: int, length: int, is_inverse: bool) -> npt.NDArray[Any]:
    """Returns the factor of each term in each sum. Integer arithmetic reduces the angles, which avoids rounding."""
    angles = np.outer(np.arange(terms), np.arange(count)) % length * (2 * np.pi / length)
    waves: npt.NDArray[Any] = np.exp(1j * angles) / length if is_inverse else np.exp(-1j * angles)
    return waves


def _times(real: Any, imaginary: Any, waves: npt.NDArray[Any], place: int) -> tuple[Any, Any]:
    along = partial(_along, place=place)
    first = along(real, waves.real) - along(imaginary, waves.imag)
    return first, along(real, waves.imag) + along(imaginary, waves.real)


def _along(x: Any, matrix: npt.NDArray[Any], place: int) -> Any:
    """Returns the product along an axis, a negative index, with a matrix. Entries beyond its rows are dropped."""
    import tensorflow as tf

    rank = x.shape.rank
    order = [*range(rank + place), *range(rank + place + 1, rank), rank + place]
    back = np.argsort(order).tolist()
    x = tf.transpose(x, order) if place < -1 else x
    rows, factor = x[..., : len(matrix)], tf.constant(matrix, x.dtype)
    product = tf.matmul(rows, factor) if rank > 1 else tf.tensordot(rows, factor, 1)
    return tf.transpose(product, back) if place < -1 else product
