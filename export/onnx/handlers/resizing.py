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
def nearest(ctx: Replacement) -> None:
    """The pixel in which the center of the new one lies, or its corner: Resize knows no such rule for the center.

    Source: tensorflow/core/kernels/image/resize_nearest_neighbor_op.cc.
    """
    images, size = ctx.inputs
    if ctx.attribute("align_corners"):
        raise ValueError("align_corners=True is not converted, which keras.ops.image.resize does not set")
    pixels = _centers if ctx.attribute("half_pixel_centers") else _count
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        scale = ctx.emit("Div", old, ctx.cast(new, "float32"))
        place = ctx.emit("Floor", ctx.emit("Mul", pixels(ctx, new), scale))
        indices = ctx.emit("Min", place, ctx.emit("Sub", old, _number(ctx, 1)))
        images = ctx.emit("Gather", images, ctx.cast(indices, "int64"), axis=axis)
    ctx.finish(images)


@handler("ResizeBilinear")
def bilinear(ctx: Replacement) -> None:
    """Resize itself, told the size: tf2onnx tells it the ratio, whose rounding may cost a pixel."""
    images, size = ctx.inputs
    images = ctx.emit("Transpose", ctx.cast(images, "float32"), perm=[0, 3, 1, 2])
    shape = ctx.emit("Slice", ctx.emit("Shape", images), ctx.integers(0), ctx.integers(2))
    shape = ctx.emit("Concat", shape, ctx.cast(size, "int64"), axis=0)
    places = next((name for name in ("align_corners", "half_pixel_centers") if ctx.attribute(name)), "asymmetric")
    mode = {"mode": "linear", "coordinate_transformation_mode": places.removesuffix("_centers")}
    ctx.finish(ctx.emit("Transpose", ctx.emit("Resize", images, "", "", shape, **mode), perm=[0, 2, 3, 1]))


@handler("ResizeBicubic")
def bicubic(ctx: Replacement) -> None:
    """Keys' cubic convolution at a fraction rounded to 1/1024: Resize does not round, and is off by some 0.002.

    Source: tensorflow/core/kernels/image/resize_bicubic_op.cc, `GetWeightsAndIndices`.
    """
    images, size = ctx.inputs
    if not ctx.attribute("half_pixel_centers"):
        raise ValueError("only half_pixel_centers=True is converted, which keras.ops.image.resize sets")
    images = ctx.cast(images, "float32")
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        scale, half = ctx.emit("Div", old, ctx.cast(new, "float32")), _number(ctx, 0.5)
        place = ctx.emit("Sub", ctx.emit("Mul", _centers(ctx, new), scale), half)
        below = ctx.emit("Floor", place)
        step = ctx.emit("Round", ctx.emit("Mul", ctx.emit("Sub", place, below), _number(ctx, _STEPS)))
        weights = ctx.emit("Gather", ctx.constant(_cubic_table(), "float32"), ctx.cast(step, "int64"))
        taps = ctx.emit("Add", _column(ctx, below), ctx.constant(_AROUND, "float32"))
        indices = _between(ctx, taps, _number(ctx, 0), ctx.emit("Sub", old, _number(ctx, 1)))
        # Pixels outside the image have no weight, and the others share it.
        weights = ctx.emit("Where", ctx.emit("Equal", indices, taps), weights, _number(ctx, 0))
        images = _weighted(ctx, images, indices, weights, axis)
    ctx.finish(images)


@handler("ResizeArea")
def area(ctx: Replacement) -> None:
    """The mean over the part of the old image that the new pixel covers, which Resize does not know.

    Source: tensorflow/core/kernels/image/resize_area_op.cc.
    """
    images, size = ctx.inputs
    if ctx.attribute("align_corners"):
        raise ValueError("align_corners=True is not converted, which tf.image.resize does not set")
    images, one = ctx.cast(images, "float32"), _number(ctx, 1)
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        scale = ctx.emit("Div", old, ctx.cast(new, "float32"))
        pixel, place = _count(ctx, old), _column(ctx, _count(ctx, new))
        first, last = (ctx.emit("Mul", each, scale) for each in (place, ctx.emit("Add", place, one)))
        covered = ctx.emit("Sub", ctx.emit("Min", last, ctx.emit("Add", pixel, one)), ctx.emit("Max", first, pixel))
        weights = ctx.emit("Div", ctx.emit("Max", covered, _number(ctx, 0)), scale)
        equation = "nh,bhwc->bnwc" if axis == _HEIGHT else "nw,bhwc->bhnc"
        images = ctx.emit("Einsum", weights, images, equation=equation)
    ctx.finish(images)


@handler("ScaleAndTranslate")
def scale_and_translate(ctx: Replacement) -> None:
    """Any of the kernels that Keras' resize has, as wide as the image shrinks if antialiased.

    Source: tensorflow/core/kernels/image/scale_and_translate_op.cc, `ComputeSpansCore`.
    """
    images, size, scale, translation = ctx.inputs
    kernel = ctx.attribute("kernel_type")
    if kernel not in _RADIUS:
        raise ValueError(f"kernel_type={kernel!r} is not converted, only {', '.join(_RADIUS)}")
    images = ctx.cast(images, "float32")
    zero, half, one = (_number(ctx, value) for value in (0, 0.5, 1))
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        last_pixel = ctx.emit("Sub", old, one)
        along = ctx.constant(axis - 1, "int64")
        shrinks = ctx.emit("Div", one, ctx.emit("Gather", scale, along))
        shift = ctx.emit("Mul", shrinks, ctx.emit("Gather", translation, along))
        place = ctx.emit("Sub", ctx.emit("Mul", _centers(ctx, new), shrinks), shift)
        stretch = ctx.emit("Max", shrinks, one) if ctx.attribute("antialias") else one
        reach = ctx.emit("Mul", stretch, _number(ctx, _RADIUS[kernel]))
        first = ctx.emit("Ceil", ctx.emit("Sub", ctx.emit("Sub", place, reach), half))
        most = ctx.emit("Add", ctx.emit("Mul", ctx.emit("Ceil", reach), _number(ctx, 2)), one)
        taps = ctx.emit(
            "Add", _column(ctx, _between(ctx, first, zero, last_pixel)), _count(ctx, ctx.emit("Min", most, old))
        )
        indices = ctx.emit("Min", taps, last_pixel)
        distance = ctx.emit("Abs", ctx.emit("Sub", ctx.emit("Add", taps, half), _column(ctx, place)))
        weights = _kernel(ctx, kernel, ctx.emit("Div", distance, stretch))
        weights = ctx.emit("Where", ctx.emit("Equal", indices, taps), weights, zero)
        images = _weighted(ctx, images, indices, weights, axis)
        # A place outside the old image is black.
        inside = ctx.emit("Equal", place, _between(ctx, place, zero, old))
        inside = ctx.emit("Unsqueeze", inside, ctx.integers(*range(1, 4 - axis)))
        images = ctx.emit("Where", inside, images, zero)
    ctx.finish(images)


def _number(ctx: Replacement, value: float) -> str:
    return ctx.constant(value, "float32")


def _column(ctx: Replacement, vector: str) -> str:
    return ctx.emit("Unsqueeze", vector, ctx.integers(1))


def _between(ctx: Replacement, x: str, lowest: str, highest: str) -> str:
    return ctx.emit("Min", ctx.emit("Max", x, lowest), highest)


def _count(ctx: Replacement, number: str) -> str:
    """Writes 0, 1, ... `number` - 1 as floats, in which all of this is computed, as TensorFlow does."""
    return ctx.emit("Range", _number(ctx, 0), ctx.cast(number, "float32"), _number(ctx, 1))


def _centers(ctx: Replacement, number: str) -> str:
    return ctx.emit("Add", _count(ctx, number), _number(ctx, 0.5))


def _sizes(ctx: Replacement, images: str, size: str, axis: int) -> tuple[str, str]:
    """Writes the old number of pixels along an axis, as a float, and the new one."""
    old = ctx.emit("Gather", ctx.emit("Shape", images), ctx.constant(axis, "int64"))
    return ctx.cast(old, "float32"), ctx.emit("Gather", size, ctx.constant(axis - 1, "int64"))


def _weighted(ctx: Replacement, images: str, indices: str, weights: str, axis: int) -> str:
    """Writes the mean of the pixels `indices` (new size, taps) along an axis under weights of the same shape."""
    weights = ctx.emit("Div", weights, ctx.emit("ReduceSum", weights, ctx.integers(1)))
    weights = ctx.emit("Unsqueeze", weights, ctx.integers(*range(2, 5 - axis)))
    pixels = ctx.emit("Gather", images, ctx.cast(indices, "int64"), axis=axis)
    return ctx.emit("ReduceSum", ctx.emit("Mul", pixels, weights), ctx.integers(axis + 1), keepdims=0)


def _cubic_table() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns the weights of the four pixels around each fraction, 0 and 1 included."""
    x = np.abs(np.arange(_STEPS + 1)[:, None] / _STEPS - _AROUND)
    return np.where(x <= 1, (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2)


def _kernel(ctx: Replacement, kernel: str, x: str) -> str:
    """Writes the kernel at distances x >= 0, and zero past its radius."""
    zero, one = _number(ctx, 0), _number(ctx, 1)
    if kernel == "triangle":
        return ctx.emit("Max", ctx.emit("Sub", one, x), zero)
    if kernel == "keyscubic":
        near = _polynomial(ctx, x, 1.5, -2.5, 0.0, 1.0)
        far = _polynomial(ctx, x, -0.5, 2.5, -4.0, 2.0)
        value = ctx.emit("Where", ctx.emit("Less", x, one), near, far)
    else:
        radius = _number(ctx, _RADIUS[kernel])
        angle = ctx.emit("Mul", x, _number(ctx, np.pi))
        slow = ctx.emit("Div", angle, radius)
        sines = ctx.emit("Mul", ctx.emit("Sin", angle), ctx.emit("Sin", slow))
        value = ctx.emit("Div", sines, ctx.emit("Mul", angle, slow))
        value = ctx.emit("Where", ctx.emit("Less", x, _number(ctx, 1e-3)), one, value)
    return ctx.emit("Where", ctx.emit("Less", x, _number(ctx, _RADIUS[kernel])), value, zero)


def _polynomial(ctx: Replacement, x: str, first: float, *others: float) -> str:
    value = _number(ctx, first)
    for coefficient in others:
        value = ctx.emit("Add", ctx.emit("Mul", value, x), _number(ctx, coefficient))
    return value
