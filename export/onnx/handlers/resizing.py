"""The resizing of images.

ONNX's Resize has TensorFlow's weights only for the bilinear method. The other methods resize one axis after the other.
"""

import numpy as np

from keras_pe.export.graph.litert_resizing import AROUND, RADIUS, STEPS, cubic_table
from keras_pe.export.onnx.handlers.arithmetic import polynomial
from keras_pe.export.onnx.handlers.handler_registry import Operand, Replacement, handler

_HEIGHT, _WIDTH = 1, 2  # the axes of an image, channels last


@handler("ResizeNearestNeighbor")
def nearest(ctx: Replacement, images: str, size: str) -> str:
    """Gathers the old pixel at the center or the corner of each new pixel; Resize has no such rule for the center.

    Source: tensorflow/core/kernels/image/resize_nearest_neighbor_op.cc.
    """
    if ctx.attribute("align_corners"):
        raise ValueError("align_corners=True has no ONNX form; keras.ops.image.resize does not set it")
    pixels = _centers if ctx.attribute("half_pixel_centers") else _count
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        scale = ctx.emit("Div", old, ctx.cast(new, "float32"))
        place = ctx.emit("Floor", ctx.emit("Mul", pixels(ctx, new), scale))
        indices = ctx.emit("Min", place, ctx.emit("Sub", old, 1))
        images = ctx.emit("Gather", images, ctx.cast(indices, "int64"), axis=axis)
    return images


@handler("ResizeBilinear")
def bilinear(ctx: Replacement, images: str, size: str) -> str:
    """Writes Resize with the size: tf2onnx passes the ratio, whose rounding may lose a pixel."""
    images = ctx.emit("Transpose", ctx.cast(images, "float32"), perm=[0, 3, 1, 2])
    shape = ctx.emit("Slice", ctx.emit("Shape", images), [0], [2])
    shape = ctx.emit("Concat", shape, ctx.cast(size, "int64"), axis=0)
    places = next((name for name in ("align_corners", "half_pixel_centers") if ctx.attribute(name)), "asymmetric")
    mode = {"mode": "linear", "coordinate_transformation_mode": places.removesuffix("_centers")}
    return ctx.emit("Transpose", ctx.emit("Resize", images, "", "", shape, **mode), perm=[0, 2, 3, 1])


@handler("ResizeBicubic")
def bicubic(ctx: Replacement, images: str, size: str) -> str:
    """Keys' cubic convolution at a fraction rounded to 1/1024: Resize does not round, and differs by about 0.002.

    Source: tensorflow/core/kernels/image/resize_bicubic_op.cc, `GetWeightsAndIndices`.
    """
    if not ctx.attribute("half_pixel_centers"):
        raise ValueError("half_pixel_centers=False has no ONNX form; keras.ops.image.resize sets True")
    images = ctx.cast(images, "float32")
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        scale = ctx.emit("Div", old, ctx.cast(new, "float32"))
        place = ctx.emit("Sub", ctx.emit("Mul", _centers(ctx, new), scale), 0.5)
        below = ctx.emit("Floor", place)
        step = ctx.emit("Round", ctx.emit("Mul", ctx.emit("Sub", place, below), STEPS))
        weights = ctx.emit("Gather", ctx.constant(cubic_table(), "float32"), ctx.cast(step, "int64"))
        taps = ctx.emit("Add", _column(ctx, below), ctx.constant(AROUND, "float32"))
        indices = _clip(ctx, taps, 0, ctx.emit("Sub", old, 1))
        # Pixels outside the image have no weight. The weights of the others are normalized.
        weights = ctx.emit("Where", ctx.emit("Equal", indices, taps), weights, 0)
        images = _weighted_mean(ctx, images, indices, weights, axis)
    return images


@handler("ResizeArea")
def area(ctx: Replacement, images: str, size: str) -> str:
    """Writes the mean of the old image over each new pixel, for which Resize has no mode.

    Source: tensorflow/core/kernels/image/resize_area_op.cc.
    """
    if ctx.attribute("align_corners"):
        raise ValueError("align_corners=True has no ONNX form; tf.image.resize does not set it")
    images = ctx.cast(images, "float32")
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        scale = ctx.emit("Div", old, ctx.cast(new, "float32"))
        pixel, place = _count(ctx, old), _column(ctx, _count(ctx, new))
        first, last = (ctx.emit("Mul", each, scale) for each in (place, ctx.emit("Add", place, 1)))
        covered = ctx.emit("Sub", ctx.emit("Min", last, ctx.emit("Add", pixel, 1)), ctx.emit("Max", first, pixel))
        weights = ctx.emit("Div", ctx.emit("Max", covered, 0), scale)
        equation = "nh,bhwc->bnwc" if axis == _HEIGHT else "nw,bhwc->bhnc"
        images = ctx.emit("Einsum", weights, images, equation=equation)
    return images


@handler("ScaleAndTranslate")
def scale_and_translate(ctx: Replacement, images: str, size: str, scale: str, translation: str) -> str:
    """Resizes with any kernel of Keras' resize. Antialiasing widens the kernel as much as the image shrinks.

    Source: tensorflow/core/kernels/image/scale_and_translate_op.cc, `ComputeSpansCore`.
    """
    kernel = ctx.attribute("kernel_type")
    if kernel not in RADIUS:
        raise ValueError(f"kernel_type={kernel!r} has no ONNX form; use one of: {', '.join(RADIUS)}")
    images = ctx.cast(images, "float32")
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        last_pixel = ctx.emit("Sub", old, 1)
        along = ctx.constant(axis - 1, "int64")
        shrinks = ctx.emit("Div", 1, ctx.emit("Gather", scale, along))
        shift = ctx.emit("Mul", shrinks, ctx.emit("Gather", translation, along))
        place = ctx.emit("Sub", ctx.emit("Mul", _centers(ctx, new), shrinks), shift)
        stretch = ctx.emit("Max", shrinks, 1) if ctx.attribute("antialias") else ctx.constant_like(1, shrinks)
        reach = ctx.emit("Mul", stretch, RADIUS[kernel])
        first = ctx.emit("Ceil", ctx.emit("Sub", ctx.emit("Sub", place, reach), 0.5))
        most = ctx.emit("Add", ctx.emit("Mul", ctx.emit("Ceil", reach), 2), 1)
        taps = ctx.emit("Add", _column(ctx, _clip(ctx, first, 0, last_pixel)), _count(ctx, ctx.emit("Min", most, old)))
        indices = ctx.emit("Min", taps, last_pixel)
        distance = ctx.emit("Abs", ctx.emit("Sub", ctx.emit("Add", taps, 0.5), _column(ctx, place)))
        weights = _kernel(ctx, kernel, ctx.emit("Div", distance, stretch))
        weights = ctx.emit("Where", ctx.emit("Equal", indices, taps), weights, 0)
        images = _weighted_mean(ctx, images, indices, weights, axis)
        # A position outside the old image is black.
        inside = ctx.emit("Equal", place, _clip(ctx, place, 0, old))
        inside = ctx.emit("Unsqueeze", inside, range(1, 4 - axis))
        images = ctx.emit("Where", inside, images, 0)
    return images


def _column(ctx: Replacement, vector: str) -> str:
    return ctx.emit("Unsqueeze", vector, [1])


def _clip(ctx: Replacement, x: str, lowest: Operand, highest: Operand) -> str:
    return ctx.emit("Min", ctx.emit("Max", x, lowest), highest)


def _count(ctx: Replacement, number: str) -> str:
    """Writes 0, 1, ... `number` - 1 as floats, the type in which TensorFlow computes positions."""
    return ctx.emit("Range", 0, ctx.cast(number, "float32"), 1)


def _centers(ctx: Replacement, number: str) -> str:
    return ctx.emit("Add", _count(ctx, number), 0.5)


def _sizes(ctx: Replacement, images: str, size: str, axis: int) -> tuple[str, str]:
    """Writes the old number of pixels along an axis, as a float, and the new number."""
    old = ctx.emit("Gather", ctx.emit("Shape", images), ctx.constant(axis, "int64"))
    return ctx.cast(old, "float32"), ctx.emit("Gather", size, ctx.constant(axis - 1, "int64"))


def _weighted_mean(ctx: Replacement, images: str, indices: str, weights: str, axis: int) -> str:
    """Writes the mean of the pixels `indices` (new size, taps) along an axis under weights of the same shape."""
    weights = ctx.emit("Div", weights, ctx.emit("ReduceSum", weights, [1]))
    weights = ctx.emit("Unsqueeze", weights, range(2, 5 - axis))
    pixels = ctx.emit("Gather", images, ctx.cast(indices, "int64"), axis=axis)
    return ctx.emit("ReduceSum", ctx.emit("Mul", pixels, weights), [axis + 1], keepdims=0)


def _kernel(ctx: Replacement, kernel: str, x: str) -> str:
    """Writes the kernel at distances x >= 0, and zero past its radius."""
    if kernel == "triangle":
        return ctx.emit("Max", ctx.emit("Sub", 1, x), 0)
    if kernel == "keyscubic":
        near = polynomial(ctx, x, [1.5, -2.5, 0, 1])
        far = polynomial(ctx, x, [-0.5, 2.5, -4, 2])
        value = ctx.emit("Where", ctx.emit("Less", x, 1), near, far)
    else:
        radius = RADIUS[kernel]
        angle = ctx.emit("Mul", x, np.pi)
        slow = ctx.emit("Div", angle, radius)
        sines = ctx.emit("Mul", ctx.emit("Sin", angle), ctx.emit("Sin", slow))
        value = ctx.emit("Div", sines, ctx.emit("Mul", angle, slow))
        value = ctx.emit("Where", ctx.emit("Less", x, 1e-3), 1, value)
    return ctx.emit("Where", ctx.emit("Less", x, RADIUS[kernel]), value, 0)
