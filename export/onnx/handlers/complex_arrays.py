"""Shapes, slices and selections of complex tensors: operators on the axes before the last, the axis of pairs."""

import numpy as np

from keras_pe.export.onnx.handlers.complex_numbers import complex_handler
from keras_pe.export.onnx.handlers.handler_registry import Replacement

_END = np.iinfo(np.int64).max  # the end of an axis of any length


@complex_handler("Reshape")
def reshape(ctx: Replacement, pairs: str, shape: str) -> str:
    """Writes the new shape with the axis of pairs."""
    whole = ctx.emit("Concat", ctx.cast(shape, "int64"), [2], axis=0)
    return ctx.emit("Reshape", pairs, whole)


@complex_handler("Transpose")
def transpose(ctx: Replacement, pairs: str, order: str) -> str:
    """Permutes the axes; the axis of pairs stays last."""
    axes = ctx.constant_value(order).tolist()
    return ctx.emit("Transpose", pairs, perm=[*axes, len(axes)])


@complex_handler("ConcatV2")
def concatenate(ctx: Replacement, *inputs: str) -> str:
    """Concatenates along an axis, counted from the first."""
    *pairs, axis = inputs
    return ctx.emit("Concat", *pairs, axis=_positive_axis(ctx, axis, ctx.rank(ctx.outputs[0])))


@complex_handler("Pack")
def stack(ctx: Replacement, *pairs: str) -> str:
    """Concatenates along a new axis."""
    axis = ctx.attribute("axis", 0) % ctx.rank(ctx.outputs[0])
    return ctx.emit("Concat", *(ctx.emit("Unsqueeze", each, [axis]) for each in pairs), axis=axis)


@complex_handler("ExpandDims")
def expand(ctx: Replacement, pairs: str, axis: str) -> str:
    """Inserts an axis, counted from the first."""
    return ctx.emit("Unsqueeze", pairs, [_positive_axis(ctx, axis, ctx.rank(ctx.outputs[0]))])


@complex_handler("Squeeze")
def squeeze(ctx: Replacement, pairs: str) -> str:
    """Removes the named axes, or else all axes of length one."""
    rank = ctx.rank(pairs) - 1
    axes = [axis % rank for axis in ctx.attribute("squeeze_dims", [])]
    if not axes:
        if ctx.rank(ctx.outputs[0]) != rank - ctx.known_shape(pairs)[:rank].count(1):
            raise ValueError("Squeeze has an ONNX form only if its axes are named, or if all dimensions are known.")
        axes = [axis for axis, size in enumerate(ctx.known_shape(pairs)[:rank]) if size == 1]
    return ctx.emit("Squeeze", pairs, axes)


@complex_handler("StridedSlice")
def strided_slice(ctx: Replacement, pairs: str, begin: str, end: str, strides: str) -> str:
    """Slices some axes. The other axes stay whole, and so does the axis of pairs."""
    if ctx.attribute("new_axis_mask", 0):
        raise ValueError("A slice with a new axis has no ONNX form for complex numbers.")
    steps = ctx.constant_value(strides).astype("int64")
    bits = 1 << np.arange(steps.size)
    masks = [ctx.attribute(f"{name}_mask", 0) & bits > 0 for name in ("begin", "end", "shrink_axis", "ellipsis")]
    # The axes of an ellipsis stay whole, and the entries behind the ellipsis belong to the last axes.
    kept = np.flatnonzero(~masks[-1])
    behind = np.cumsum(masks[-1])[kept]
    axes = kept + behind * (ctx.rank(pairs) - 1 - steps.size)
    steps, first, last, single = (each[kept] for each in (steps, *masks[:-1]))
    begin, end = (ctx.emit("Gather", ctx.cast(name, "int64"), kept) for name in (begin, end))
    start = _select_constant(ctx, first, np.where(steps > 0, 0, _END), begin)
    stop = _select_constant(ctx, last, np.where(steps > 0, _END, -_END), end)
    next_one = ctx.emit("Add", start, np.ones_like(steps))
    is_last = ctx.emit("Equal", start, -np.ones_like(steps))
    after = ctx.emit("Where", is_last, np.full_like(steps, _END), next_one)
    stop = ctx.emit("Where", ctx.constant(single, "bool"), after, stop)
    pairs = ctx.emit("Slice", pairs, start, stop, axes, np.where(single, 1, steps))
    taken = axes[single]
    return ctx.emit("Squeeze", pairs, taken) if taken.size else pairs


@complex_handler("GatherV2")
def gather(ctx: Replacement, pairs: str, indices: str, axis: str) -> str:
    """Gathers entries along an axis, counted from the first."""
    if ctx.attribute("batch_dims", 0):
        raise ValueError("A gather with batch_dims has no ONNX form for complex numbers.")
    place = _positive_axis(ctx, axis, ctx.rank(pairs) - 1)
    return ctx.emit("Gather", pairs, ctx.cast(indices, "int64"), axis=place)


@complex_handler("Tile", "BroadcastTo")
def repeat(ctx: Replacement, pairs: str, sizes: str) -> str:
    """Repeats the tensor along its axes, but not along the axis of pairs."""
    is_tile = ctx.operator.startswith("Tile")
    whole = ctx.emit("Concat", ctx.cast(sizes, "int64"), [1 if is_tile else 2], axis=0)
    return ctx.emit("Tile" if is_tile else "Expand", pairs, whole)


@complex_handler("SelectV2")
def select(ctx: Replacement, condition: str, *both: str) -> str:
    """Selects pairs. Broadcasting aligns the last axes, so the condition gets an axis of pairs."""
    last = ctx.emit("Unsqueeze", condition, [-1])
    return ctx.emit("Where", last, *both)


def _select_constant(ctx: Replacement, mask: np.ndarray, value: np.ndarray, otherwise: str) -> str:
    """Writes the value where the mask is true, and the other tensor elsewhere."""
    return ctx.emit("Where", ctx.constant(mask, "bool"), value, otherwise)


def _positive_axis(ctx: Replacement, axis: str, rank: int) -> int:
    """Returns an axis counted from the first. The rank does not count the axis of pairs."""
    return int(ctx.constant_value(axis).item()) % rank
