"""Transposed convolutions: the gradient of a convolution, which is told the size of the image that this one had.

Source: tensorflow/core/framework/kernel_shape_util.cc. Told a size, ONNX's operator puts the larger half of an odd
padding on the other side, and takes no size beyond what its kernels reach.
"""

from dataclasses import dataclass
from typing import Any

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@dataclass(frozen=True)
class _Axis:
    """One axis of the image: pixels from one kernel to the next, and pixels of a kernel with its gaps."""

    stride: int
    reach: int

    def padding(self, size: int, is_same: bool) -> tuple[int, int, int]:
        """Returns what to cut off the kernels' sum before and after, and how many zeros to add after it."""
        kernels = -(-size // self.stride) if is_same else (size - self.reach) // self.stride + 1
        excess = self.stride * (kernels - 1) + self.reach - size
        before = max(excess, 0) // 2
        return before, max(excess, 0) - before, max(-excess, 0)


@handler("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def transposed_convolution(ctx: Replacement, sizes: str, kernel: str, images: str, *bias: str) -> str:
    """The kernels' sum, cut to size or filled up with zeros."""
    rank = ctx.rank(images) - 2
    is_last = ctx.attribute("data_format").endswith("C")
    first = 1 if is_last else 2  # axis of the image
    strides, dilations = (ctx.attribute(name)[first : first + rank] for name in ("strides", "dilations"))
    kernel_shape = ctx.known_shape(kernel)[:rank]
    axes = [
        _Axis(stride, (size - 1) * dilation + 1)
        for stride, size, dilation in zip(strides, kernel_shape, dilations, strict=True)
    ]
    is_same = ctx.attribute("padding") == "SAME"
    if is_last:
        images = ctx.emit("Transpose", images, perm=[0, rank + 1, *range(1, rank + 1)])
    kernel = ctx.emit("Transpose", kernel, perm=[rank + 1, rank, *range(rank)])
    attributes = {"strides": strides, "dilations": dilations, "kernel_shape": kernel_shape}
    known = ctx.known_sizes(sizes)  # a list whose batch may be -1, or None
    if known is not None:
        attributes |= _attributes(axes, [int(size) for size in known[first : first + rank]], is_same)
        result = ctx.emit("ConvTranspose", images, kernel, *bias, **attributes)
    else:
        wanted = ctx.emit("Slice", ctx.cast(sizes, "int64"), [first], [first + rank])
        result = _cut(ctx, ctx.emit("ConvTranspose", images, kernel, **attributes), wanted, axes, is_same)
        for each in bias:  # of the zeros too
            result = ctx.emit("Add", result, ctx.emit("Unsqueeze", each, range(1, rank + 1)))
    return ctx.emit("Transpose", result, perm=[0, *range(2, rank + 2), 1]) if is_last else result


def _attributes(axes: list[_Axis], sizes: list[int], is_same: bool) -> dict[str, Any]:
    paddings = [axis.padding(size, is_same) for axis, size in zip(axes, sizes, strict=True)]
    before, after, added = (list(column) for column in zip(*paddings, strict=True))
    return {"pads": [*before, *after], "output_padding": added}


def _cut(ctx: Replacement, whole: str, sizes: str, axes: list[_Axis], is_same: bool) -> str:
    """Writes the same where the sizes are not known."""
    found = ctx.emit("Slice", ctx.emit("Shape", whole), [2], [2 + len(axes)])
    excess = ctx.emit("Sub", found, sizes)
    result = whole
    if is_same:
        before = ctx.emit("Div", ctx.emit("Max", excess, [0]), [2])
        result = ctx.emit("Slice", whole, before, ctx.emit("Add", before, sizes), range(2, 2 + len(axes)))
    if any(axis.stride > (axis.reach if is_same else 1) for axis in axes):
        added = ctx.emit("Max", ctx.emit("Neg", excess), [0])
        none = [0] * (2 + len(axes))  # before every axis, and after the batch and the channels
        result = ctx.emit("Pad", result, ctx.emit("Concat", [*none, 0, 0], added, axis=0))
    return result
