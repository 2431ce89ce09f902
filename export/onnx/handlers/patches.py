"""ExtractImagePatches: tf2onnx's form of it takes no batch of any size, and no size that is found while it runs."""

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("ExtractImagePatches")
def extract_image_patches(ctx: Replacement) -> None:
    """Gathers the rows of each patch, then the columns; a patch's pixels become channels, row by row."""
    (images,) = ctx.inputs
    kernel, strides, rates = (ctx.attribute(name)[1:3] for name in ("ksizes", "strides", "rates"))
    is_same = ctx.attribute("padding") == "SAME"
    channels = ctx.emit("Gather", ctx.emit("Shape", images), ctx.integers(3))
    counts = []
    # The axes: first [batch, rows, columns, channels], then [batch, rows, kernel rows, columns, channels].
    for axis, size, stride, rate in zip((1, 3), kernel, strides, rates, strict=True):
        images, count = _patches(ctx, images, axis, (size - 1) * rate + 1, range(0, size * rate, rate), stride, is_same)
        counts.append(count)
    # [batch, rows, kernel rows, columns, kernel columns, channels]
    pixels = ctx.emit("Transpose", images, perm=(0, 1, 3, 2, 4, 5))
    batch = ctx.emit("Gather", ctx.emit("Shape", pixels), ctx.integers(0))
    depth = ctx.emit("Mul", channels, ctx.integers(kernel[0] * kernel[1]))
    ctx.finish(ctx.emit("Reshape", pixels, ctx.emit("Concat", batch, *counts, depth, axis=0)))


def _patches(
    ctx: Replacement, images: str, axis: int, reach: int, offsets: range, stride: int, is_same: bool
) -> tuple[str, str]:
    """Returns the images with an axis for the patches and one for the pixels of each, and the number of patches."""
    size = ctx.emit("Gather", ctx.emit("Shape", images), ctx.integers(axis))
    one, step = ctx.integers(1), ctx.integers(stride)
    if is_same:
        count = ctx.emit("Div", ctx.emit("Add", size, ctx.integers(stride - 1)), step)
        wanted = ctx.emit("Add", ctx.emit("Mul", ctx.emit("Sub", count, one), step), ctx.integers(reach))
        excess = ctx.emit("Max", ctx.emit("Sub", wanted, size), ctx.integers(0))
        before = ctx.emit("Div", excess, ctx.integers(2))
        after = ctx.emit("Sub", excess, before)
        rank = 4 if axis == 1 else 5
        none = [ctx.integers(*[0] * length) if length else "" for length in (axis, rank - axis - 1)]
        parts = [none[0], before, none[1], none[0], after, none[1]]
        pads = ctx.emit("Concat", *filter(None, parts), axis=0)
        images = ctx.emit("Pad", images, pads, ctx.constant_like(0, images))
    else:
        room = ctx.emit("Sub", size, ctx.integers(reach))
        count = ctx.emit("Max", ctx.emit("Add", ctx.emit("Div", room, step), one), ctx.integers(0))
    scalar = ctx.emit("Squeeze", count, ctx.integers(0))
    starts = ctx.emit("Range", ctx.constant(0, "int64"), scalar, ctx.constant(1, "int64"))
    starts = ctx.emit("Unsqueeze", ctx.emit("Mul", starts, step), ctx.integers(1))
    places = ctx.emit("Add", starts, ctx.integers(*offsets))
    return ctx.emit("Gather", images, places, axis=axis), count
