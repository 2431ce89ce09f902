"""Array surgery: BroadcastArgs, Cross, XlaDynamicUpdateSlice, ReverseV2, Cumprod on a last axis, ArgMax of truths."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement


@handler("BroadcastArgs")
def broadcast_args(ctx: Replacement) -> None:
    """The shape of what two empty tensors of the two shapes broadcast to."""
    first, second = (ctx.cast(shape, "int64") for shape in ctx.inputs)
    tensor = ctx.emit("Expand", ctx.emit("ConstantOfShape", first), second)
    ctx.finish(ctx.cast_like_output(ctx.emit("Shape", tensor)))


@handler("Cross")
def cross(ctx: Replacement) -> None:
    """The cross product along the last axis, by its definition."""
    a, b = ctx.inputs
    turned = [
        [ctx.emit("Gather", x, ctx.integers(*order), axis=-1) for order in ((1, 2, 0), (2, 0, 1))] for x in (a, b)
    ]
    (a1, a2), (b1, b2) = turned
    ctx.finish(ctx.emit("Sub", ctx.emit("Mul", a1, b2), ctx.emit("Mul", a2, b1)))


@handler("XlaDynamicUpdateSlice")
def dynamic_update_slice(ctx: Replacement) -> None:
    """Pads the update, and a mask of it, to the size of what it is written into, and takes it where the mask is set."""
    x, update, start = ctx.inputs
    size, part = ctx.emit("Shape", x), ctx.emit("Shape", update)
    room = ctx.emit("Sub", size, part)
    # XLA moves a start that does not fit; a pad that is negative would cut.
    before = ctx.emit("Min", ctx.emit("Max", ctx.cast(start, "int64"), ctx.constant(0, "int64")), room)
    pads = ctx.emit("Concat", before, ctx.emit("Sub", room, before), axis=0)
    truth = ctx.emit("Expand", ctx.constant(1, "int32"), part)
    inside = ctx.cast(ctx.emit("Pad", truth, pads), "bool")
    ctx.finish(ctx.emit("Where", inside, ctx.emit("Pad", update, pads), x))


@handler("ReverseV2")
def reverse(ctx: Replacement) -> None:
    """One slice that goes backwards, where tf2onnx takes a transposition, a ReverseSequence and eight nodes more."""
    x, _ = ctx.inputs
    axes = [int(axis) for axis in ctx.constant_value(ctx.inputs[1])]
    if not axes:
        ctx.finish(x)
        return
    ends = [np.iinfo("int64").min] * len(axes)
    bounds = ([-1] * len(axes), ends, axes, [-1] * len(axes))
    ctx.finish(ctx.emit("Slice", x, *(ctx.integers(*each) for each in bounds)))


@handler("UnravelIndex")
def unravel_index(ctx: Replacement) -> None:
    """How often the later axes go into each index, modulo the size of the axis; the axes come first."""
    indices, shape = ctx.inputs
    sizes = ctx.constant_value(shape).astype("int64")
    later = np.cumprod([1, *sizes[:0:-1]])[::-1]
    columns = (-1, *[1] * ctx.rank(indices))
    rows = ctx.emit(
        "Div", ctx.emit("Unsqueeze", indices, ctx.integers(0)), ctx.constant_like(later.reshape(columns), indices)
    )
    ctx.finish(ctx.emit("Mod", rows, ctx.constant_like(sizes.reshape(columns), indices)))


@handler("ArgMax", "ArgMin")
def arg_extreme(ctx: Replacement) -> None:
    """The first extreme along an axis, of truths too, which ONNX does not order."""
    x, _ = ctx.inputs
    axis = ctx.constant_value(ctx.inputs[1]).tolist()
    ordered = x if ctx.numpy_dtype(x).kind != "b" else ctx.cast(x, "int32")
    ctx.finish(ctx.cast_like_output(ctx.emit(ctx.operator, ordered, axis=axis, keepdims=0)))


@handler("Cumprod")
def cumprod(ctx: Replacement) -> None:
    """tf2onnx's own loop, which takes an axis counted from the front only."""
    axis = int(ctx.constant_value(ctx.inputs[1]))
    ctx.set_input(1, ctx.constant(axis % ctx.rank(ctx.inputs[0]), "int32"))
    ctx.leave_to_tf2onnx()
