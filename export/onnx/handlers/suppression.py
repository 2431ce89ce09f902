"""Suppression of boxes that overlap better ones: tf2onnx takes zeros for empty places, and drops what scores less."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("CombinedNonMaxSuppression")
def combined_suppression(ctx: Replacement) -> None:
    """The best boxes of all classes: each that is selected keeps its score, all others have minus infinity."""
    boxes, scores, per_class, total, overlap, least = ctx.inputs
    is_shared = ctx.known_shape(boxes)[2] == 1
    by_class = ctx.emit("Transpose", scores, perm=[0, 2, 1])
    classes, count = (ctx.emit("Shape", by_class, start=axis, end=axis + 1) for axis in (1, 2))
    per_class, total = (ctx.emit("Reshape", ctx.cast(size, "int64"), ctx.integers(1)) for size in (per_class, total))
    flat = ctx.emit("Flatten", by_class, axis=1)
    if is_shared:
        boxes = ctx.emit("Squeeze", boxes, ctx.integers(2))
        rows, scored = boxes, by_class
    else:  # a batch of single classes, each with boxes of its own
        boxes = ctx.emit("Transpose", boxes, perm=[0, 2, 1, 3])
        rows, boxes = (
            ctx.emit("Reshape", ctx.emit("Flatten", boxes, axis=axis), ctx.integers(0, -1, 4)) for axis in (2, 1)
        )
        scored = ctx.emit("Unsqueeze", ctx.emit("Flatten", by_class, axis=2), ctx.integers(1))
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
    taken = ctx.emit("GatherND", boxes, ctx.emit("Unsqueeze", of_box, ctx.integers(-1)), batch_dims=1)
    if ctx.attribute("clip_boxes", 1):
        taken = ctx.emit("Clip", taken, ctx.constant(0, "float32"), ctx.constant(1, "float32"))
    zero = ctx.constant(0, "float32")
    missing = ctx.emit("Sub", total, best)
    padding = ctx.emit("Concat", ctx.integers(0, 0, 0), missing, axis=0)
    numbers = ctx.cast(ctx.emit("Div", places, count), "float32")
    scores, numbers = (
        ctx.emit("Pad", ctx.emit("Where", found, each, zero), padding, zero) for each in (values, numbers)
    )
    taken = ctx.emit("Where", ctx.emit("Unsqueeze", found, ctx.integers(-1)), taken, zero)
    padding = ctx.emit("Concat", ctx.integers(0, 0, 0, 0), missing, ctx.integers(0), axis=0)
    valid = ctx.emit("ReduceSum", ctx.cast(found, "int64"), ctx.integers(-1), keepdims=0)
    ctx.finish(ctx.emit("Pad", taken, padding, zero), scores, numbers, ctx.cast_like_output(valid, 3))
