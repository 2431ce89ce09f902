"""Unsorted segment reductions, by scattering: those of tf2onnx leave infinities in empty segments."""

from typing import Any

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

# TensorFlow's operator -> ONNX's way of combining what falls on one row.
_REDUCTIONS = {
    "UnsortedSegmentSum": "add",
    "UnsortedSegmentProd": "mul",
    "UnsortedSegmentMax": "max",
    "UnsortedSegmentMin": "min",
}


@handler("UnsortedSegmentSum", "UnsortedSegmentProd", since=16)
def add_or_multiply(ctx: Replacement) -> None:
    """Opset 16 brings the scattering that adds and multiplies."""
    _scatter(ctx)


@handler("UnsortedSegmentMax", "UnsortedSegmentMin", since=18)
def maximum_or_minimum(ctx: Replacement) -> None:
    """Opset 18 brings the scattering that takes the extremes."""
    _scatter(ctx)


@handler("UnsortedSegmentMax", "UnsortedSegmentMin", until=17)
def refused(ctx: Replacement) -> None:
    """Without scattering, empty segments would be infinite where TensorFlow's are the largest finite number."""
    raise ValueError(f"{ctx.operator} needs opset 18.")


def _scatter(ctx: Replacement) -> None:
    data, segments, count = ctx.inputs
    count = ctx.emit("Reshape", ctx.cast(count, "int64"), ctx.integers(1))
    # A negative segment is dropped: it goes to one row more, which is cut off again.
    dropped = ctx.emit("Less", segments, ctx.constant_like(0, segments))
    rows = ctx.emit("Where", dropped, count, ctx.cast(segments, "int64"))
    inner = ctx.emit("Slice", ctx.emit("Shape", data), ctx.integers(ctx.rank(segments)), ctx.integers(ctx.rank(data)))
    shape = ctx.emit("Concat", ctx.emit("Add", count, ctx.integers(1)), inner, axis=0)
    start = ctx.emit("Expand", ctx.constant_like(_neutral(ctx.operator, ctx.numpy_dtype(data)), data), shape)
    index = ctx.emit("Unsqueeze", rows, ctx.integers(-1))
    filled = ctx.emit("ScatterND", start, index, data, reduction=_REDUCTIONS[ctx.operator])
    ctx.finish(ctx.emit("Slice", filled, ctx.integers(0), count))


def _neutral(operator: str, dtype: np.dtype[Any]) -> Any:
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return {
        "UnsortedSegmentSum": 0,
        "UnsortedSegmentProd": 1,
        "UnsortedSegmentMax": limits.min,
        "UnsortedSegmentMin": limits.max,
    }[operator]
