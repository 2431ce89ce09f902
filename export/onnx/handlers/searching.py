"""Bucketize, the two bounds of searchsorted, TopKV2 and InTopKV2: positions in an order, by comparison."""

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Bucketize")
def bucketize(ctx: Replacement) -> None:
    """Counts the boundaries that are not above each value."""
    (x,) = ctx.inputs
    # The boundaries are float32; an integer beyond 2**24 is none, and a double between two of them would become one.
    dtype = "float64" if ctx.numpy_dtype(x) in ("float64", "int32", "int64") else "float32"
    values = ctx.emit("Unsqueeze", ctx.cast(x, dtype), ctx.integers(-1))
    boundaries = ctx.constant(ctx.attribute("boundaries"), dtype)
    ctx.finish(_count(ctx, ctx.emit("GreaterOrEqual", values, boundaries)))


@handler("LowerBound")
def lower_bound(ctx: Replacement) -> None:
    """Counts the entries of each sorted row that are below each value."""
    _bound(ctx, "Less")


@handler("UpperBound")
def upper_bound(ctx: Replacement) -> None:
    """Counts the entries of each sorted row that are not above each value."""
    _bound(ctx, "LessOrEqual")


@handler("TopKV2")
def top_k(ctx: Replacement) -> None:
    """TopK in the element type it is asked in: tf2onnx goes through float32, where integers above 2**24 merge."""
    x, k = ctx.inputs
    dtype = ctx.numpy_dtype(x)
    wide = x if dtype.kind == "f" or dtype in ("int32", "int64") else ctx.cast(x, "int64")
    count = ctx.emit("Reshape", ctx.cast(k, "int64"), ctx.integers(1))
    values, places = ctx.emit_all("TopK", wide, count, outputs=2)
    ctx.finish(ctx.cast_like_output(values), ctx.cast_like_output(places, output=1))


@handler("InTopKV2")
def in_top_k(ctx: Replacement) -> None:
    """Fewer than k predictions are above the target's, and nothing in the row is beyond comparison."""
    predictions, targets, k = ctx.inputs
    columns = ctx.emit("Gather", ctx.emit("Shape", predictions), ctx.constant(1, "int64"))
    last = ctx.emit("Sub", columns, ctx.constant(1, "int64"))
    wanted = ctx.cast(targets, "int64")
    within = ctx.emit("Min", ctx.emit("Max", wanted, ctx.constant(0, "int64")), last)
    index = ctx.emit("Unsqueeze", within, ctx.integers(1))
    score = ctx.emit("GatherElements", predictions, index, axis=1)
    above = _count(ctx, ctx.emit("Greater", predictions, score), dtype="int64")
    finite = ctx.emit("Less", ctx.emit("Abs", predictions), ctx.constant_like(np.inf, predictions))
    comparable = ctx.emit("Equal", _count(ctx, finite, dtype="int64"), columns)
    ranked = ctx.emit("Less", above, ctx.cast(k, "int64"))
    ctx.finish(ctx.emit("And", ctx.emit("And", ranked, comparable), ctx.emit("Equal", wanted, within)))


def _bound(ctx: Replacement, comparison: str) -> None:
    rows, values = ctx.inputs
    entries = ctx.emit("Unsqueeze", rows, ctx.integers(-2))
    wanted = ctx.emit("Unsqueeze", values, ctx.integers(-1))
    ctx.finish(_count(ctx, ctx.emit(comparison, entries, wanted)))


def _count(ctx: Replacement, truths: str, dtype: str | None = None) -> str:
    counts = ctx.emit("ReduceSum", ctx.cast(truths, "int64"), ctx.integers(-1), keepdims=0)
    return ctx.cast_like_output(counts) if dtype is None else counts
