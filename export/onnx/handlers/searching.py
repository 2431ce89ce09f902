"""Bucketize, the two bounds of searchsorted, TopKV2 and InTopKV2: positions in an order, by comparison."""

import numpy as np

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("Bucketize")
def bucketize(at: Replacement) -> None:
    """Counts the boundaries that are not above each value."""
    (x,) = at.inputs
    values = at.emit("Unsqueeze", at.cast(x, "float32"), at.integers(-1))
    boundaries = at.constant(at.node.get_attr("boundaries").floats, "float32")
    at.finish(_count(at, at.emit("GreaterOrEqual", values, boundaries)))


@handler("LowerBound")
def lower_bound(at: Replacement) -> None:
    """Counts the entries of each sorted row that are below each value."""
    _bound(at, "Less")


@handler("UpperBound")
def upper_bound(at: Replacement) -> None:
    """Counts the entries of each sorted row that are not above each value."""
    _bound(at, "LessOrEqual")


@handler("TopKV2")
def top_k(at: Replacement) -> None:
    """TopK in the element type it is asked in: tf2onnx goes through float32, where integers above 2**24 merge."""
    x, k = at.inputs
    dtype = at.numpy_dtype(x)
    wide = x if dtype.kind == "f" or dtype in ("int32", "int64") else at.cast(x, "int64")
    count = at.emit("Reshape", at.cast(k, "int64"), at.integers(1))
    top = at.graph.make_node("TopK", [wide, count], output_count=2)
    at.finish(at.cast_like_output(top.output[0]), at.cast_like_output(top.output[1], output=1))


@handler("InTopKV2")
def in_top_k(at: Replacement) -> None:
    """Fewer than k predictions are above the target's, and nothing in the row is beyond comparison."""
    predictions, targets, k = at.inputs
    columns = at.emit("Gather", at.emit("Shape", predictions), at.constant(1, "int64"))
    last = at.emit("Sub", columns, at.constant(1, "int64"))
    wanted = at.cast(targets, "int64")
    within = at.emit("Min", at.emit("Max", wanted, at.constant(0, "int64")), last)
    index = at.emit("Unsqueeze", within, at.integers(1))
    score = at.emit("GatherElements", predictions, index, axis=1)
    above = _count(at, at.emit("Greater", predictions, score), dtype="int64")
    finite = at.emit("Less", at.emit("Abs", predictions), at.constant_like(np.inf, predictions))
    comparable = at.emit("Equal", _count(at, finite, dtype="int64"), columns)
    ranked = at.emit("Less", above, at.cast(k, "int64"))
    at.finish(at.emit("And", at.emit("And", ranked, comparable), at.emit("Equal", wanted, within)))


def _bound(at: Replacement, comparison: str) -> None:
    rows, values = at.inputs
    entries = at.emit("Unsqueeze", rows, at.integers(-2))
    wanted = at.emit("Unsqueeze", values, at.integers(-1))
    at.finish(_count(at, at.emit(comparison, entries, wanted)))


def _count(at: Replacement, truths: str, dtype: str | None = None) -> str:
    counts = at.emit("ReduceSum", at.cast(truths, "int64"), at.integers(-1), keepdims=0)
    return at.cast_like_output(counts) if dtype is None else counts
