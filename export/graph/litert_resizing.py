"""Resizing of images in forms that LiteRT can run: gathered pixels and their weighted sums."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_HEIGHT, _WIDTH = 1, 2  # the axes of an image, channels last
STEPS = 1024  # TensorFlow reads bicubic weights from a table with this many fractions of a pixel
AROUND = np.arange(-1, 3)  # the offsets of the four pixels around a position
RADIUS = {"triangle": 1, "keyscubic": 2, "lanczos3": 3, "lanczos5": 5}


def resize_form(kind: str, given: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the function that writes a resizing operator for LiteRT; None if no replacement is needed or known.

    Args:
        kind: The type of the operator.
        given: The inputs and attributes of the operator, by name.
    """
    if kind not in _FORMS or given.get("align_corners") or given.get("kernel_type", "triangle") not in RADIUS:
        return None
    if kind == "ResizeBicubic" and not given["half_pixel_centers"]:
        return None
    is_own = kind in ("ResizeBilinear", "ResizeNearestNeighbor")
    return None if is_own and given["images"].dtype == "float32" else _FORMS[kind]


def _nearest(_: Callable[..., Any], images: Any, size: Any, half_pixel_centers: bool, **__: Any) -> Any:
    """Gathers the old pixels that contain the centers, or the corners, of the new pixels."""
    import tensorflow as tf

    def places(old: Any, new: Any) -> Any:
        count = _count(new) + 0.5 if half_pixel_centers else _count(new)
        place = tf.floor(count * (_float(old) / _float(new)))
        return (tf.cast(tf.minimum(place, _float(old) - 1), "int32"),)

    for axis, (pixels,) in _by_axis(images, size, places):
        images = tf.gather(images, pixels, axis=axis)
    return images


def _bilinear(_: Callable[..., Any], images: Any, size: Any, half_pixel_centers: bool, **__: Any) -> Any:
    """Interpolates between two columns and then two rows.

    The order of operations is TensorFlow's, since a later cast to integers magnifies each difference in rounding.

    Source: tensorflow/core/kernels/image/resize_bilinear_op.cc, `compute_lerp`.
    """
    import tensorflow as tf

    def between(old: Any, new: Any) -> tuple[Any, ...]:
        scale = _float(old) / _float(new)
        place = (_count(new) + 0.5) * scale - 0.5 if half_pixel_centers else _count(new) * scale
        lower, upper = tf.maximum(tf.floor(place), 0.0), tf.minimum(tf.math.ceil(place), _float(old) - 1)
        return tf.cast(lower, "int32"), tf.cast(upper, "int32"), place - tf.floor(place)

    images = tf.cast(images, "float32")
    for axis, (lower, upper, step) in reversed(_by_axis(images, size, between)):
        first, second = (tf.gather(images, pixels, axis=axis) for pixels in (lower, upper))
        images = first + (second - first) * tf.reshape(step, tf.concat([tf.shape(step), [1] * (3 - axis)], 0))
    return images


def _bicubic(_: Callable[..., Any], images: Any, size: Any, **__: Any) -> Any:
    """Computes Keys' cubic convolution, at fractions of a pixel that are rounded to 1/1024.

    Source: tensorflow/core/kernels/image/resize_bicubic_op.cc, `GetWeightsAndIndices`.
    """
    import tensorflow as tf

    def find_taps(old: Any, new: Any) -> tuple[Any, Any]:
        place = (_count(new) + 0.5) * (_float(old) / _float(new)) - 0.5
        below = tf.floor(place)
        steps = tf.cast(tf.round((place - below) * STEPS), "int32")
        weights = tf.gather(tf.constant(cubic_table(), "float32"), steps)
        taps = below[:, None] + tf.constant(AROUND, "float32")
        return _normalize_weights(*_within(taps, weights, old))

    return _sum_weighted(images, size, find_taps)


def _area(_: Callable[..., Any], images: Any, size: Any, **__: Any) -> Any:
    """Computes the mean over the area of the old image that a new pixel covers.

    Source: tensorflow/core/kernels/image/resize_area_op.cc.
    """
    import tensorflow as tf

    def find_taps(old: Any, new: Any) -> tuple[Any, Any]:
        scale = _float(old) / _float(new)
        first, last = (((_count(new) + each) * scale)[:, None] for each in (0, 1))
        taps = tf.floor(first) + _count(tf.cast(tf.math.ceil(scale), "int32") + 1)
        covered = tf.minimum(last, taps + 1) - tf.maximum(first, taps)
        return _within(taps, tf.maximum(covered, 0) / scale, old)

    return _sum_weighted(images, size, find_taps)


def _scale_and_translate(
    _: Callable[..., Any],
    images: Any,
    size: Any,
    scale: Any,
    translation: Any,
    kernel_type: str = "lanczos3",
    antialias: bool = True,
    **__: Any,
) -> Any:
    """Applies any kernel of `tf.image.resize`. With antialiasing, the kernel widens by the factor of the shrinking.

    Source: tensorflow/core/kernels/image/scale_and_translate_op.cc, `ComputeSpansCore`.
    """
    import tensorflow as tf

    radius = RADIUS[kernel_type]

    def find_taps(old: Any, new: Any, scale: Any, translation: Any) -> tuple[Any, ...]:
        shrinks = 1 / scale
        place = (_count(new) + 0.5) * shrinks - shrinks * translation
        stretch = tf.maximum(shrinks, 1.0) if antialias else tf.ones_like(shrinks)
        reach = stretch * radius
        first = tf.clip_by_value(tf.math.ceil(place - reach - 0.5), 0.0, _float(old) - 1)
        most = tf.cast(tf.minimum(tf.math.ceil(reach) * 2 + 1, _float(old)), "int32")
        taps = first[:, None] + _count(most)
        distance = tf.abs(taps + 0.5 - place[:, None]) / stretch
        pixels, weights = _normalize_weights(*_within(taps, _kernel(kernel_type, distance), old))
        is_inside = (place >= 0) & (place <= _float(old))  # positions outside the old image are black
        return pixels, tf.where(is_inside[:, None], weights, tf.zeros_like(weights))

    return _sum_weighted(images, size, find_taps, scale, translation)


def _kernel(name: str, x: Any) -> Any:
    """Returns the values of a kernel at nonnegative distances."""
    import tensorflow as tf

    if name == "triangle":
        return tf.maximum(1 - x, 0)
    if name == "keyscubic":
        near = ((1.5 * x - 2.5) * x) * x + 1
        value = tf.where(x >= 1, ((-0.5 * x + 2.5) * x - 4) * x + 2, near)
    else:
        radius = RADIUS[name]
        angle = np.pi * x
        waves = radius * tf.sin(angle) * tf.sin(angle / radius) / tf.where(x > 1e-3, angle * angle, tf.ones_like(x))
        value = tf.where(x > 1e-3, waves, tf.ones_like(x))
    return tf.where(x >= RADIUS[name], tf.zeros_like(x), value)


def cubic_table() -> npt.NDArray[np.float64]:
    """Returns the weights of the four pixels around each fraction, including 0 and 1."""
    x = np.abs(np.arange(STEPS + 1)[:, None] / STEPS - AROUND)
    return np.where(x <= 1, (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2)


def _within(taps: Any, weights: Any, old: Any) -> tuple[Any, Any]:
    """Returns the pixel indices of the taps, and their weights. The weight of a tap outside the image is 0."""
    import tensorflow as tf

    pixels = tf.clip_by_value(taps, 0.0, _float(old) - 1)
    weights = tf.where(tf.equal(pixels, taps), weights, tf.zeros_like(weights))
    return tf.cast(pixels, "int32"), weights


def _normalize_weights(pixels: Any, weights: Any) -> tuple[Any, Any]:
    """Returns the pixels, with weights that are scaled to sum to 1."""
    import tensorflow as tf

    return pixels, weights / tf.reduce_sum(weights, 1, keepdims=True)


def _sum_weighted(images: Any, size: Any, find_taps: Callable[..., Any], *of_axes: Any) -> Any:
    """Returns the weighted sums of pixels, along the height and then the width.

    Args:
        images: Images of any numeric dtype.
        size: The new height and width.
        find_taps: A function from an old and a new size to pixels and weights, both `(new, taps)`.
        of_axes: Further arguments of the function, each with one entry for each axis.
    """
    import tensorflow as tf

    images = tf.cast(images, "float32")
    for axis, (pixels, weights) in _by_axis(images, size, find_taps, *of_axes):
        weights = tf.reshape(weights, tf.concat([tf.shape(weights), [1] * (3 - axis)], 0))
        images = tf.reduce_sum(tf.gather(images, pixels, axis=axis) * weights, axis + 1)
    return images


def _by_axis(images: Any, size: Any, compute: Callable[..., Any], *of_axes: Any) -> list[tuple[int, Any]]:
    """Returns each axis with the tensors that a function computes from its sizes; constants if all sizes are known."""
    import tensorflow as tf

    found = []
    for place, axis in enumerate((_HEIGHT, _WIDTH)):
        sizes = tf.get_static_value(tf.convert_to_tensor(size))
        others = [tf.get_static_value(tf.convert_to_tensor(each)) for each in of_axes]
        old = images.shape[axis]
        if old is None or sizes is None or any(each is None for each in others):
            known = tf.shape(images)[axis] if old is None else old
            computed = compute(known, size[place], *(each[place] for each in of_axes))
        else:
            with tf.init_scope():  # leave the graph, so that TensorFlow computes the values eagerly
                values = compute(int(old), int(sizes[place]), *(tf.constant(each[place]) for each in others))
            computed = [tf.constant(value.numpy()) for value in values]
        found.append((axis, computed))
    return found


def _count(number: Any) -> Any:
    """Returns 0, 1, ... as float32, the dtype in which TensorFlow computes the positions."""
    import tensorflow as tf

    return tf.cast(tf.range(number), "float32")


def _float(number: Any) -> Any:
    import tensorflow as tf

    return tf.cast(number, "float32")


_FORMS: dict[str, Callable[..., Any]] = {
    "ResizeArea": _area,
    "ResizeBicubic": _bicubic,
    "ResizeBilinear": _bilinear,
    "ResizeNearestNeighbor": _nearest,
    "ScaleAndTranslate": _scale_and_translate,
}
