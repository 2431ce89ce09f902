"""Array operators that tf2onnx converts wrongly or not at all: selection, one-hot rows, reversals, updates, sorting."""

import numpy as np

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


@handler("BroadcastArgs")
def broadcast_args(ctx: Replacement, *inputs: str) -> str:
    """Writes the shape to which two tensors of these shapes broadcast."""
    first, second = (ctx.cast(shape, "int64") for shape in inputs)
    tensor = ctx.emit("Expand", ctx.emit("ConstantOfShape", first), second)
    return ctx.cast_like_output(ctx.emit("Shape", tensor))


@handler("Cross")
def cross(ctx: Replacement, a: str, b: str) -> str:
    """Writes the cross product along the last axis, by its definition."""
    rotated = [[ctx.emit("Gather", x, order, axis=-1) for order in ((1, 2, 0), (2, 0, 1))] for x in (a, b)]
    (a1, a2), (b1, b2) = rotated
    return ctx.emit("Sub", ctx.emit("Mul", a1, b2), ctx.emit("Mul", a2, b1))


@handler("XlaDynamicUpdateSlice")
def dynamic_update_slice(ctx: Replacement, x: str, update: str, start: str) -> str:
    """Pads the update, and a mask of ones, to the shape of the tensor, and selects the update by the mask."""
    size, part = ctx.emit("Shape", x), ctx.emit("Shape", update)
    room = ctx.emit("Sub", size, part)
    # XLA moves a start at which the update does not fit. A negative padding would cut the update.
    before = ctx.emit("Min", ctx.emit("Max", ctx.cast(start, "int64"), 0), room)
    pads = ctx.emit("Concat", before, ctx.emit("Sub", room, before), axis=0)
    mask = ctx.emit("Expand", ctx.constant(1, "int32"), part)
    inside = ctx.cast(ctx.emit("Pad", mask, pads), "bool")
    return ctx.emit("Where", inside, ctx.emit("Pad", update, pads), x)


@handler("Slice")
def cut(ctx: Replacement, x: str, begin: str, size: str) -> str:
    """Writes the bounds in 64 bits, so that sizes need no Cast. A size of -1 reaches up to the end."""
    start, count = (ctx.cast(each, "int64") for each in (begin, size))
    is_from_first = (places := ctx.value(begin)) is not None and not places.any()
    end = count if is_from_first else ctx.emit("Add", start, count)
    if (sizes := ctx.value(size)) is None or (sizes < 0).any():
        end = ctx.emit("Where", ctx.emit("Equal", count, -1), np.iinfo("int64").max, end)
    return ctx.emit("Slice", x, start, end)


@handler("ReverseV2")
def reverse(ctx: Replacement, x: str, axis: str) -> str:
    """Writes one Slice with negative steps instead of the ten nodes of tf2onnx."""
    axes = [int(each) for each in ctx.constant_value(axis)]
    if not axes:
        return x
    ends = [np.iinfo("int64").min] * len(axes)
    bounds = ([-1] * len(axes), ends, axes, [-1] * len(axes))
    return ctx.emit("Slice", x, *bounds)


@handler("UnravelIndex")
def unravel_index(ctx: Replacement, indices: str, shape: str) -> str:
    """Divides each index by the product of the later dimensions, modulo the dimension. The axes are the rows."""
    sizes = ctx.constant_value(shape).astype("int64")
    later = np.cumprod([1, *sizes[:0:-1]])[::-1]
    columns = (-1, *[1] * ctx.rank(indices))
    rows = ctx.emit("Div", ctx.emit("Unsqueeze", indices, [0]), ctx.constant_like(later.reshape(columns), indices))
    return ctx.emit("Mod", rows, ctx.constant_like(sizes.reshape(columns), indices))


@handler("ArgMax", "ArgMin")
def arg_extreme(ctx: Replacement, x: str, axis: str) -> str:
    """Writes the index of the first extreme along an axis, also of booleans, which ONNX does not order."""
    ordered = x if ctx.numpy_dtype(x).kind != "b" else ctx.cast(x, "int32")
    return ctx.cast_like_output(ctx.emit(ctx.operator, ordered, axis=ctx.constant_value(axis).tolist(), keepdims=0))


@handler("Cumprod")
def cumprod(ctx: Replacement, x: str, axis: str) -> None:
    """Passes tf2onnx the axis counted from the front, because its loop accepts no negative axis."""
    ctx.set_input(1, ctx.constant(int(ctx.constant_value(axis)) % ctx.rank(x), "int32"))
    ctx.leave_to_tf2onnx()


@handler("Select", "SelectV2")
def select(ctx: Replacement, condition: str, x: str, y: str) -> str:
    """Writes Where, through int32 for the element types for which ONNX Runtime has no kernel."""
    if ctx.operator == "Select" and ctx.rank(condition) == 1 and ctx.rank(x) > 1:
        condition = ctx.emit("Reshape", condition, [-1, *[1] * (ctx.rank(x) - 1)])
    if ctx.numpy_dtype(x) not in ("bool", "int16", "uint16"):
        return ctx.emit("Where", condition, x, y)
    return ctx.cast_like_output(ctx.emit("Where", condition, ctx.cast(x, "int32"), ctx.cast(y, "int32")))


@handler("OneHot")
def one_hot(ctx: Replacement, indices: str, depth: str, on: str, off: str) -> str:
    """Compares the indices with 0, 1, ..., depth - 1 along the new axis."""
    rank = ctx.rank(indices)
    axis = ctx.attribute("axis", -1) % (rank + 1)
    if ctx.numpy_dtype(indices) not in ("int32", "int64"):
        indices = ctx.cast(indices, "int32")
    dtype = ctx.numpy_dtype(indices)
    classes = ctx.emit("Range", ctx.constant(0, dtype), ctx.cast(depth, dtype), ctx.constant(1, dtype))
    column = ctx.emit("Reshape", classes, [-1, *[1] * (rank - axis)])
    hot = ctx.emit("Equal", ctx.emit("Unsqueeze", indices, [axis]), column)
    if ctx.numpy_dtype(on).kind == "b":
        on, off = ctx.cast(on, "int32"), ctx.cast(off, "int32")
    return ctx.cast_like_output(ctx.emit("Where", hot, on, off))


@handler("CTCGreedyDecoder")
def ctc_greedy_decoder(ctx: Replacement, *inputs: str) -> None:
    """Refuses a `blank_index` that is not the last class, because tf2onnx ignores it."""
    if ctx.attribute("blank_index", -1) != -1:
        raise ValueError("CTC decoding with a blank that is not the last class has no ONNX form.")
    ctx.leave_to_tf2onnx()


@handler("Bucketize")
def bucketize(ctx: Replacement, x: str) -> str:
    """Counts the boundaries that are not above each value."""
    # float64 keeps each integer and double distinct from the boundaries, which are float32.
    dtype = "float64" if ctx.numpy_dtype(x) in ("float64", "int32", "int64") else "float32"
    values = ctx.emit("Unsqueeze", ctx.cast(x, dtype), [-1])
    boundaries = ctx.constant(ctx.attribute("boundaries"), dtype)
    return _count(ctx, ctx.emit("GreaterOrEqual", values, boundaries))


@handler("LowerBound", "UpperBound")
def bound(ctx: Replacement, rows: str, values: str) -> str:
    """Counts the entries of each sorted row that are below each value, or not above it."""
    comparison = "Less" if ctx.operator == "LowerBound" else "LessOrEqual"
    entries = ctx.emit("Unsqueeze", rows, [-2])
    return _count(ctx, ctx.emit(comparison, entries, ctx.emit("Unsqueeze", values, [-1])))


@handler("TopKV2")
def top_k(ctx: Replacement, x: str, k: str) -> tuple[str, str]:
    """Writes TopK in the type of the input: tf2onnx casts to float32, which rounds integers above 2**24."""
    dtype = ctx.numpy_dtype(x)
    wide = x if dtype.kind == "f" or dtype in ("int32", "int64") else ctx.cast(x, "int64")
    count = ctx.emit("Reshape", ctx.cast(k, "int64"), [1])
    values, places = ctx.emit_all("TopK", wide, count, outputs=2)
    return ctx.cast_like_output(values), ctx.cast_like_output(places, output=1)


@handler("InTopKV2")
def in_top_k(ctx: Replacement, predictions: str, targets: str, k: str) -> str:
    """Writes whether fewer than k predictions exceed the target's, and all predictions of the row are finite."""
    columns = ctx.emit("Gather", ctx.emit("Shape", predictions), 1)
    last = ctx.emit("Sub", columns, 1)
    wanted = ctx.cast(targets, "int64")
    within = ctx.emit("Min", ctx.emit("Max", wanted, 0), last)
    index = ctx.emit("Unsqueeze", within, [1])
    score = ctx.emit("GatherElements", predictions, index, axis=1)
    above = _count(ctx, ctx.emit("Greater", predictions, score), dtype="int64")
    finite = ctx.emit("Less", ctx.emit("Abs", predictions), np.inf)
    comparable = ctx.emit("Equal", _count(ctx, finite, dtype="int64"), columns)
    ranked = ctx.emit("Less", above, ctx.cast(k, "int64"))
    return ctx.emit("And", ctx.emit("And", ranked, comparable), ctx.emit("Equal", wanted, within))


def _count(ctx: Replacement, truths: str, dtype: str | None = None) -> str:
    counts = ctx.emit("ReduceSum", ctx.cast(truths, "int64"), [-1], keepdims=0)
    return ctx.cast_like_output(counts) if dtype is None else counts
