"""Array surgery, where tf2onnx has no form or another meaning: selection, one-hot rows, crosses, reversals, updates."""

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


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


@handler("Select", "SelectV2")
def select(ctx: Replacement) -> None:
    """Where, through int32 for the element types that ONNX Runtime has no Where for."""
    condition, x, y = ctx.inputs
    if ctx.operator == "Select" and ctx.rank(condition) == 1 and ctx.rank(x) > 1:
        condition = ctx.emit("Reshape", condition, ctx.integers(-1, *[1] * (ctx.rank(x) - 1)))
    if ctx.numpy_dtype(x) not in ("bool", "int16", "uint16"):
        ctx.finish(ctx.emit("Where", condition, x, y))
    else:
        ctx.finish(ctx.cast_like_output(ctx.emit("Where", condition, ctx.cast(x, "int32"), ctx.cast(y, "int32"))))


@handler("OneHot")
def one_hot(ctx: Replacement) -> None:
    """Compares the indices with 0, 1, ..., depth - 1 along the new axis."""
    indices, depth, on, off = ctx.inputs
    rank = ctx.rank(indices)
    axis = ctx.attribute("axis", -1) % (rank + 1)
    if ctx.numpy_dtype(indices) not in ("int32", "int64"):
        indices = ctx.cast(indices, "int32")
    dtype = ctx.numpy_dtype(indices)
    classes = ctx.emit("Range", ctx.constant(0, dtype), ctx.cast(depth, dtype), ctx.constant(1, dtype))
    column = ctx.emit("Reshape", classes, ctx.integers(-1, *[1] * (rank - axis)))
    hot = ctx.emit("Equal", ctx.emit("Unsqueeze", indices, ctx.integers(axis)), column)
    if ctx.numpy_dtype(on).kind == "b":
        on, off = ctx.cast(on, "int32"), ctx.cast(off, "int32")
    ctx.finish(ctx.cast_like_output(ctx.emit("Where", hot, on, off)))
