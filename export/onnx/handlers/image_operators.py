"""Images: colors, patches, boxes that overlap better ones, and resizing.

ONNX's Resize has TensorFlow's weights only for the bilinear method. The other methods resize one axis after the other.
"""

from typing import Any

import numpy as np

from keras_pe.export.onnx.handlers.arithmetic import polynomial
from keras_pe.export.onnx.handlers.registration import Operand, Replacement, handler


@handler("RGBToHSV")
def rgb_to_hsv(ctx: Replacement, x: str) -> str:
    """Measures the hue from the largest channel, the first of equal ones. The hue of a gray is 0."""
    red, green, blue = (_channel(ctx, x, index) for index in range(3))
    value = ctx.emit("Max", red, green, blue)
    spread = ctx.emit("Sub", value, ctx.emit("Min", red, green, blue))
    zero = ctx.constant_like(0, x)
    saturation = ctx.emit("Where", ctx.emit("Greater", value, zero), ctx.emit("Div", spread, value), zero)
    unit = ctx.emit("Div", 1 / 6, spread)
    from_red, from_green, from_blue = (
        ctx.emit("Add", ctx.emit("Mul", unit, ctx.emit("Sub", *pair)), start)
        for pair, start in (((green, blue), 0), ((blue, red), 2 / 6), ((red, green), 4 / 6))
    )
    hue = ctx.emit("Where", ctx.emit("Equal", green, value), from_green, from_blue)
    hue = ctx.emit("Where", ctx.emit("Equal", red, value), from_red, hue)
    hue = ctx.emit("Where", ctx.emit("Greater", spread, zero), hue, zero)
    positive = ctx.emit("Add", hue, 1)
    hue = ctx.emit("Where", ctx.emit("Less", hue, zero), positive, hue)
    return ctx.emit("Concat", hue, saturation, value, axis=-1)


@handler("HSVToRGB")
def hsv_to_rgb(ctx: Replacement, x: str) -> str:
    """Writes each channel as a trapezium over the hue, mixed with white as the saturation decreases."""
    hue, saturation, value = (_channel(ctx, x, index) for index in range(3))
    sixths = ctx.emit("Mul", hue, 6)
    centers = ctx.constant_like([3, 2, 4], x)
    distance = ctx.emit("Abs", ctx.emit("Sub", sixths, centers))
    signs, offsets = ctx.constant_like([1, -1, -1], x), ctx.constant_like([-1, 2, 2], x)
    pure = ctx.emit("Add", ctx.emit("Mul", distance, signs), offsets)
    pure = ctx.emit("Min", ctx.emit("Max", pure, 0), 1)
    white = ctx.emit("Sub", 1, saturation)
    return ctx.emit("Mul", ctx.emit("Add", white, ctx.emit("Mul", saturation, pure)), value)


def _channel(ctx: Replacement, x: str, index: int) -> str:
    return ctx.emit("Gather", x, [index], axis=-1)


@handler("ExtractImagePatches")
def extract_image_patches(ctx: Replacement, images: str) -> str:
    """Gathers the rows of each patch, then the columns; a patch's pixels become channels, row by row."""
    kernel, strides, rates = (ctx.attribute(name)[1:3] for name in ("ksizes", "strides", "rates"))
    is_same = ctx.attribute("padding") == "SAME"
    channels = ctx.emit("Gather", ctx.emit("Shape", images), [3])
    counts = []
    # The axes are [batch, rows, columns, channels], then [batch, rows, kernel rows, columns, channels].
    for axis, size, stride, rate in zip((1, 3), kernel, strides, rates, strict=True):
        images, count = _patches(ctx, images, axis, (size - 1) * rate + 1, range(0, size * rate, rate), stride, is_same)
        counts.append(count)
    # [batch, rows, kernel rows, columns, kernel columns, channels]
    pixels = ctx.emit("Transpose", images, perm=(0, 1, 3, 2, 4, 5))
    batch = ctx.emit("Gather", ctx.emit("Shape", pixels), [0])
    depth = ctx.emit("Mul", channels, [kernel[0] * kernel[1]])
    return ctx.emit("Reshape", pixels, ctx.emit("Concat", batch, *counts, depth, axis=0))


def _patches(
    ctx: Replacement, images: str, axis: int, reach: int, offsets: range, stride: int, is_same: bool
) -> tuple[str, str]:
    """Returns the images with an axis of patches and an axis of their pixels, and the number of patches."""
    size = ctx.emit("Gather", ctx.emit("Shape", images), [axis])
    if is_same:
        count = ctx.emit("Div", ctx.emit("Add", size, [stride - 1]), [stride])
        wanted = ctx.emit("Add", ctx.emit("Mul", ctx.emit("Sub", count, [1]), [stride]), [reach])
        excess = ctx.emit("Max", ctx.emit("Sub", wanted, size), [0])
        before = ctx.emit("Div", excess, [2])
        after = ctx.emit("Sub", excess, before)
        first, last = [0] * axis, [0] * (2 if axis == 1 else 1)
        pads = ctx.emit("Concat", first, before, last, first, after, last, axis=0)
        images = ctx.emit("Pad", images, pads, ctx.constant_like(0, images))
    else:
        room = ctx.emit("Sub", size, [reach])
        count = ctx.emit("Max", ctx.emit("Add", ctx.emit("Div", room, [stride]), [1]), [0])
    scalar = ctx.emit("Squeeze", count, [0])
    starts = ctx.emit("Range", 0, scalar, 1)
    starts = ctx.emit("Unsqueeze", ctx.emit("Mul", starts, [stride]), [1])
    places = ctx.emit("Add", starts, offsets)
    return ctx.emit("Gather", images, places, axis=axis), count


@handler("CombinedNonMaxSuppression")
def combined_suppression(
    ctx: Replacement, boxes: str, scores: str, per_class: str, total: str, overlap: str, least: str
) -> tuple[str, ...]:
    """Writes the best boxes of all classes. A box that is not selected has a score of minus infinity."""
    is_shared = ctx.known_shape(boxes)[2] == 1
    by_class = ctx.emit("Transpose", scores, perm=[0, 2, 1])
    classes, count = (ctx.emit("Shape", by_class, start=axis, end=axis + 1) for axis in (1, 2))
    per_class, total = (ctx.emit("Reshape", ctx.cast(size, "int64"), [1]) for size in (per_class, total))
    flat = ctx.emit("Flatten", by_class, axis=1)
    if is_shared:
        boxes = ctx.emit("Squeeze", boxes, [2])
        rows, scored = boxes, by_class
    else:  # a batch of single classes with separate boxes
        boxes = ctx.emit("Transpose", boxes, perm=[0, 2, 1, 3])
        rows, boxes = (ctx.emit("Reshape", ctx.emit("Flatten", boxes, axis=axis), [0, -1, 4]) for axis in (2, 1))
        scored = ctx.emit("Unsqueeze", ctx.emit("Flatten", by_class, axis=2), [1])
    selected = ctx.emit("NonMaxSuppression", rows, scored, per_class, overlap, least)
    nothing = ctx.constant(-np.inf, "float32")
    empty = ctx.emit("Expand", nothing, ctx.emit("Shape", scored))
    kept = ctx.emit("ScatterND", empty, selected, ctx.emit("GatherND", scored, selected))
    kept = ctx.emit("Reshape", kept, ctx.emit("Shape", flat))
    if ctx.attribute("pad_per_class", 0):
        total = ctx.emit("Min", total, ctx.emit("Mul", per_class, classes))
    best = ctx.emit("Min", total, ctx.emit("Mul", classes, count))
    values, places = ctx.emit_all("TopK", kept, best, outputs=2, axis=1)
    found = ctx.emit("Greater", values, nothing)
    of_box = ctx.emit("Mod", places, count) if is_shared else places
    taken = ctx.emit("GatherND", boxes, ctx.emit("Unsqueeze", of_box, [-1]), batch_dims=1)
    if ctx.attribute("clip_boxes", 1):
        taken = ctx.emit("Clip", taken, ctx.constant(0, "float32"), ctx.constant(1, "float32"))
    zero = ctx.constant(0, "float32")
    missing = ctx.emit("Sub", total, best)
    padding = ctx.emit("Concat", [0, 0, 0], missing, axis=0)
    numbers = ctx.cast(ctx.emit("Div", places, count), "float32")
    scores, numbers = (
        ctx.emit("Pad", ctx.emit("Where", found, each, zero), padding, zero) for each in (values, numbers)
    )
    taken = ctx.emit("Where", ctx.emit("Unsqueeze", found, [-1]), taken, zero)
    padding = ctx.emit("Concat", [0, 0, 0, 0], missing, [0], axis=0)
    valid = ctx.emit("ReduceSum", ctx.cast(found, "int64"), [-1], keepdims=0)
    return ctx.emit("Pad", taken, padding, zero), scores, numbers, ctx.cast_like_output(valid, 3)


_HEIGHT, _WIDTH = 1, 2  # the axes of an image, channels last
_STEPS = 1024  # fractions of a pixel in TensorFlow's table of bicubic weights
_AROUND = np.arange(-1, 3)  # the pixels around a fraction of a pixel
_RADIUS = {"triangle": 1, "keyscubic": 2, "lanczos3": 3, "lanczos5": 5}


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
        step = ctx.emit("Round", ctx.emit("Mul", ctx.emit("Sub", place, below), _STEPS))
        weights = ctx.emit("Gather", ctx.constant(_cubic_table(), "float32"), ctx.cast(step, "int64"))
        taps = ctx.emit("Add", _column(ctx, below), ctx.constant(_AROUND, "float32"))
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
    if kernel not in _RADIUS:
        raise ValueError(f"kernel_type={kernel!r} has no ONNX form; use one of: {', '.join(_RADIUS)}")
    images = ctx.cast(images, "float32")
    for axis in (_HEIGHT, _WIDTH):
        old, new = _sizes(ctx, images, size, axis)
        last_pixel = ctx.emit("Sub", old, 1)
        along = ctx.constant(axis - 1, "int64")
        shrinks = ctx.emit("Div", 1, ctx.emit("Gather", scale, along))
        shift = ctx.emit("Mul", shrinks, ctx.emit("Gather", translation, along))
        place = ctx.emit("Sub", ctx.emit("Mul", _centers(ctx, new), shrinks), shift)
        stretch = ctx.emit("Max", shrinks, 1) if ctx.attribute("antialias") else ctx.constant_like(1, shrinks)
        reach = ctx.emit("Mul", stretch, _RADIUS[kernel])
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


def _cubic_table() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns the weights of the four pixels around each fraction, 0 and 1 included."""
    x = np.abs(np.arange(_STEPS + 1)[:, None] / _STEPS - _AROUND)
    return np.where(x <= 1, (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2)


def _kernel(ctx: Replacement, kernel: str, x: str) -> str:
    """Writes the kernel at distances x >= 0, and zero past its radius."""
    if kernel == "triangle":
        return ctx.emit("Max", ctx.emit("Sub", 1, x), 0)
    if kernel == "keyscubic":
        near = polynomial(ctx, x, [1.5, -2.5, 0, 1])
        far = polynomial(ctx, x, [-0.5, 2.5, -4, 2])
        value = ctx.emit("Where", ctx.emit("Less", x, 1), near, far)
    else:
        radius = _RADIUS[kernel]
        angle = ctx.emit("Mul", x, np.pi)
        slow = ctx.emit("Div", angle, radius)
        sines = ctx.emit("Mul", ctx.emit("Sin", angle), ctx.emit("Sin", slow))
        value = ctx.emit("Div", sines, ctx.emit("Mul", angle, slow))
        value = ctx.emit("Where", ctx.emit("Less", x, 1e-3), 1, value)
    return ctx.emit("Where", ctx.emit("Less", x, _RADIUS[kernel]), value, 0)
