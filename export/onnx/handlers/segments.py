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


@handler("UnsortedSegmentSum", "UnsortedSegmentProd", opsets=range(16, 19))
def add_or_multiply(at: Replacement) -> None:
    """Opset 16 brings the scattering that adds and multiplies."""
    _scatter(at)


@handler("UnsortedSegmentMax", "UnsortedSegmentMin", opsets=range(18, 19))
def maximum_or_minimum(at: Replacement) -> None:
    """Opset 18 brings the scattering that takes the extremes."""
    _scatter(at)


@handler("UnsortedSegmentMax", "UnsortedSegmentMin", opsets=range(15, 18))
def refused(at: Replacement) -> None:
    """Without scattering, empty segments would be infinite where TensorFlow's are the largest finite number."""
    raise ValueError(f"{at.node.type} needs opset 18.")


def _scatter(at: Replacement) -> None:
    data, segments, count = at.inputs
    count = at.emit("Reshape", at.cast(count, "int64"), at.integers(1))
    # A negative segment is dropped: it goes to one row more, which is cut off again.
    dropped = at.emit("Less", segments, at.constant_like(0, segments))
    rows = at.emit("Where", dropped, count, at.cast(segments, "int64"))
    inner = at.emit("Slice", at.emit("Shape", data), at.integers(at.rank(segments)), at.integers(at.rank(data)))
    shape = at.emit("Concat", at.emit("Add", count, at.integers(1)), inner, axis=0)
    start = at.emit("Expand", at.constant_like(_neutral(at.node.type, at.numpy_dtype(data)), data), shape)
    index = at.emit("Unsqueeze", rows, at.integers(-1))
    filled = at.emit("ScatterND", start, index, data, reduction=_REDUCTIONS[at.node.type])
    at.finish(at.emit("Slice", filled, at.integers(0), count))


def _neutral(operator: str, dtype: np.dtype[Any]) -> Any:
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return {
        "UnsortedSegmentSum": 0,
        "UnsortedSegmentProd": 1,
        "UnsortedSegmentMax": limits.min,
        "UnsortedSegmentMin": limits.max,
    }[operator]
