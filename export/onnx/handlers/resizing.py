"""Resizing of images, as TensorFlow weighs the old pixels around a new one.

ONNX's Resize has the bilinear weights alone. For the others each axis is resized by itself.
"""

from typing import Any

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

_HEIGHT, _WIDTH = 1, 2  # the axes of an image, channels last
_STEPS = 1024  # TensorFlow's bicubic weights come from a table of so many fractions of a pixel
_AROUND = np.arange(-1, 3)  # the pixels around a fraction of a pixel
_RADIUS = {"triangle": 1, "keyscubic": 2, "lanczos3": 3, "lanczos5": 5}


@handler("ResizeNearestNeighbor")
def nearest(at: Replacement) -> None:
    """The pixel in which the centre of the new one lies, or its corner: Resize knows no such rule for the centre.

    Source: tensorflow/core/kernels/image/resize_nearest_neighbor_op.cc.
    """
    images, size = at.inputs
    if at.node.get_attr_value("align_corners"):
        raise ValueError("align_corners=True is not converted, which keras.ops.image.resize does not set")
    pixels = _centres if at.node.get_attr_value("half_pixel_centers") else _count
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(at, images, size, axis)
        scale = at.emit("Div", old, at.cast(new, "float32"))
        place = at.emit("Floor", at.emit("Mul", pixels(at, new), scale))
        indices = at.emit("Min", place, at.emit("Sub", old, _number(at, 1)))
        images = at.emit("Gather", images, at.cast(indices, "int64"), axis=axis)
    at.finish(images)


@handler("ResizeBilinear")
def bilinear(at: Replacement) -> None:
    """Resize itself, told the size: tf2onnx tells it the ratio, whose rounding may cost a pixel."""
    images, size = at.inputs
    images = at.emit("Transpose", at.cast(images, "float32"), perm=[0, 3, 1, 2])
    shape = at.emit("Slice", at.emit("Shape", images), at.integers(0), at.integers(2))
    shape = at.emit("Concat", shape, at.cast(size, "int64"), axis=0)
    places = next(
        (name for name in ("align_corners", "half_pixel_centers") if at.node.get_attr_value(name)), "asymmetric"
    )
    mode = {"mode": "linear", "coordinate_transformation_mode": places.removesuffix("_centers")}
    at.finish(at.emit("Transpose", at.emit("Resize", images, "", "", shape, **mode), perm=[0, 2, 3, 1]))


@handler("ResizeBicubic")
def bicubic(at: Replacement) -> None:
    """Keys' cubic convolution at a fraction rounded to 1/1024: Resize does not round, and is off by some 0.002.

    Source: tensorflow/core/kernels/image/resize_bicubic_op.cc, `GetWeightsAndIndices`.
    """
    images, size = at.inputs
    if not at.node.get_attr_value("half_pixel_centers"):
        raise ValueError("only half_pixel_centers=True is converted, which keras.ops.image.resize sets")
    images = at.cast(images, "float32")
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(at, images, size, axis)
        scale, half = at.emit("Div", old, at.cast(new, "float32")), _number(at, 0.5)
        place = at.emit("Sub", at.emit("Mul", _centres(at, new), scale), half)
        below = at.emit("Floor", place)
        step = at.emit("Round", at.emit("Mul", at.emit("Sub", place, below), _number(at, _STEPS)))
        weights = at.emit("Gather", at.constant(_cubic_table(), "float32"), at.cast(step, "int64"))
        taps = at.emit("Add", _column(at, below), at.constant(_AROUND, "float32"))
        indices = _between(at, taps, _number(at, 0), at.emit("Sub", old, _number(at, 1)))
        # Pixels outside the image have no weight, and the others share it.
        weights = at.emit("Where", at.emit("Equal", indices, taps), weights, _number(at, 0))
        images = _weighted(at, images, indices, weights, axis)
    at.finish(images)


@handler("ScaleAndTranslate")
def scale_and_translate(at: Replacement) -> None:
    """Any of the kernels that Keras' resize has, as wide as the image shrinks if antialiased.

    Source: tensorflow/core/kernels/image/scale_and_translate_op.cc, `ComputeSpansCore`.
    """
    images, size, scale, translation = at.inputs
    kernel = at.node.get_attr_value("kernel_type").decode()
    if kernel not in _RADIUS:
        raise ValueError(f"kernel_type={kernel!r} is not converted, only {', '.join(_RADIUS)}")
    images = at.cast(images, "float32")
    zero, half, one = (_number(at, value) for value in (0, 0.5, 1))
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(at, images, size, axis)
        last_pixel = at.emit("Sub", old, one)
        along = at.constant(axis - 1, "int64")
        shrinks = at.emit("Div", one, at.emit("Gather", scale, along))
        shift = at.emit("Mul", shrinks, at.emit("Gather", translation, along))
        place = at.emit("Sub", at.emit("Mul", _centres(at, new), shrinks), shift)
        stretch = at.emit("Max", shrinks, one) if at.node.get_attr_value("antialias") else one
        reach = at.emit("Mul", stretch, _number(at, _RADIUS[kernel]))
        first = at.emit("Ceil", at.emit("Sub", at.emit("Sub", place, reach), half))
        most = at.emit("Add", at.emit("Mul", at.emit("Ceil", reach), _number(at, 2)), one)
        taps = at.emit("Add", _column(at, _between(at, first, zero, last_pixel)), _count(at, at.emit("Min", most, old)))
        indices = at.emit("Min", taps, last_pixel)
        distance = at.emit("Abs", at.emit("Sub", at.emit("Add", taps, half), _column(at, place)))
        weights = _kernel(at, kernel, at.emit("Div", distance, stretch))
        weights = at.emit("Where", at.emit("Equal", indices, taps), weights, zero)
        images = _weighted(at, images, indices, weights, axis)
        # A place outside the old image is black.
        inside = at.emit("Equal", place, _between(at, place, zero, old))
        inside = at.emit("Unsqueeze", inside, at.integers(*range(1, 4 - axis)))
        images = at.emit("Where", inside, images, zero)
    at.finish(images)


def _number(at: Replacement, value: float) -> str:
    return at.constant(value, "float32")


def _column(at: Replacement, vector: str) -> str:
    return at.emit("Unsqueeze", vector, at.integers(1))


def _between(at: Replacement, x: str, lowest: str, highest: str) -> str:
    return at.emit("Min", at.emit("Max", x, lowest), highest)


def _count(at: Replacement, number: str) -> str:
    """Writes 0, 1, ... `number` - 1 as floats, in which all of this is computed, as TensorFlow does."""
    return at.emit("Range", _number(at, 0), at.cast(number, "float32"), _number(at, 1))


def _centres(at: Replacement, number: str) -> str:
    return at.emit("Add", _count(at, number), _number(at, 0.5))


def _sizes(at: Replacement, images: str, size: str, axis: int) -> tuple[str, str]:
    """Writes the old number of pixels along an axis, as a float, and the new one."""
    old = at.emit("Gather", at.emit("Shape", images), at.constant(axis, "int64"))
    return at.cast(old, "float32"), at.emit("Gather", size, at.constant(axis - 1, "int64"))


def _weighted(at: Replacement, images: str, indices: str, weights: str, axis: int) -> str:
    """Writes the mean of the pixels `indices` (new size, taps) along an axis under weights of the same shape."""
    weights = at.emit("Div", weights, at.emit("ReduceSum", weights, at.integers(1)))
    weights = at.emit("Unsqueeze", weights, at.integers(*range(2, 5 - axis)))
    pixels = at.emit("Gather", images, at.cast(indices, "int64"), axis=axis)
    return at.emit("ReduceSum", at.emit("Mul", pixels, weights), at.integers(axis + 1), keepdims=0)


def _cubic_table() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns the weights of the four pixels around each fraction, 0 and 1 included."""
    x = np.abs(np.arange(_STEPS + 1)[:, None] / _STEPS - _AROUND)
    return np.where(x <= 1, (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2)


def _kernel(at: Replacement, kernel: str, x: str) -> str:
    """Writes the kernel at distances x >= 0, and zero past its radius."""
    zero, one = _number(at, 0), _number(at, 1)
    if kernel == "triangle":
        return at.emit("Max", at.emit("Sub", one, x), zero)
    if kernel == "keyscubic":
        near = _polynomial(at, x, 1.5, -2.5, 0.0, 1.0)
        far = _polynomial(at, x, -0.5, 2.5, -4.0, 2.0)
        value = at.emit("Where", at.emit("Less", x, one), near, far)
    else:
        radius = _number(at, _RADIUS[kernel])
        angle = at.emit("Mul", x, _number(at, np.pi))
        slow = at.emit("Div", angle, radius)
        sines = at.emit("Mul", at.emit("Sin", angle), at.emit("Sin", slow))
        value = at.emit("Div", sines, at.emit("Mul", angle, slow))
        value = at.emit("Where", at.emit("Less", x, _number(at, 1e-3)), one, value)
    return at.emit("Where", at.emit("Less", x, _number(at, _RADIUS[kernel])), value, zero)


def _polynomial(at: Replacement, x: str, first: float, *others: float) -> str:
    value = _number(at, first)
    for coefficient in others:
        value = at.emit("Add", at.emit("Mul", value, x), _number(at, coefficient))
    return value
