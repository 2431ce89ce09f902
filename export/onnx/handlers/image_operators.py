"""Images: colors, patches, and boxes that overlap better ones."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


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
