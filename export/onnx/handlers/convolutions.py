"""Transposed convolutions: the gradient of a convolution, which is told the size of the image that this one had.

Source: tensorflow/core/framework/kernel_shape_util.cc. Told a size, ONNX's operator puts the larger half of an odd
padding on the other side, and takes no size beyond what its kernels reach.
"""

from dataclasses import dataclass

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
def gradient(ctx: Replacement, sizes: str, kernel: str, images: str, *bias: str) -> str:
    """The kernels' sum, cut to size or filled up with zeros."""
    rank = ctx.rank(images) - 2
    is_same, is_last = ctx.attribute("padding") == "SAME", ctx.attribute("data_format").endswith("C")
    first = 1 if is_last else 2  # axis of the image
    steps = {name: ctx.attribute(name)[first : first + rank] for name in ("strides", "dilations")}
    known = ctx.known_sizes(sizes)  # a list whose batch may be -1, or None
    if known is not None:
        told = [int(size) for size in known[first : first + rank]]
        return transposed_convolution(ctx, images, kernel, *bias, sizes=told, is_same=is_same, is_last=is_last, **steps)
    axes = _axes(ctx, kernel, **steps)
    wanted = ctx.emit("Slice", ctx.cast(sizes, "int64"), [first], [first + rank])
    whole = ctx.emit("ConvTranspose", *_channels_first(ctx, images, kernel, is_last), **steps)
    result = _cut(ctx, whole, wanted, axes, is_same)
    for each in bias:  # of the zeros too
        result = ctx.emit("Add", result, ctx.emit("Unsqueeze", each, range(1, rank + 1)))
    return _as_given(ctx, result, rank, is_last)


def transposed_convolution(
    ctx: Replacement,
    images: str,
    kernel: str,
    *bias: str,
    sizes: list[int],
    strides: list[int],
    dilations: list[int],
    is_same: bool,
    is_last: bool,
) -> str:
    """One operator.

    Args:
        ctx: Where to write.
        images: What it is of, with their channels last or first.
        kernel: The kernel, as TensorFlow has it.
        bias: What is added to each channel, if anything.
        sizes: Those of an image that it returns. Where it is given any, one of them is enough: a pixel more goes in,
            and as many more as the stride come out.
        strides: One for each axis of the image.
        dilations: The same.
        is_same: Whether the convolution that this is the gradient of pads its images.
        is_last: Whether the channels are last.
    """
    axes = _axes(ctx, kernel, strides, dilations)
    paddings = [axis.padding(size, is_same) for axis, size in zip(axes, sizes, strict=True)]
    before, after, added = (list(column) for column in zip(*paddings, strict=True))
    cut = {"pads": [*before, *after], "output_padding": added}
    inputs = [*_channels_first(ctx, images, kernel, is_last), *bias]
    result = ctx.emit("ConvTranspose", *inputs, strides=strides, dilations=dilations, **cut)
    return _as_given(ctx, result, len(axes), is_last)


def _axes(ctx: Replacement, kernel: str, strides: list[int], dilations: list[int]) -> list[_Axis]:
    sizes = ctx.known_shape(kernel)[: len(strides)]
    columns = zip(strides, sizes, dilations, strict=True)
    return [_Axis(stride, (size - 1) * dilation + 1) for stride, size, dilation in columns]


def _channels_first(ctx: Replacement, images: str, kernel: str, is_last: bool) -> tuple[str, str]:
    rank = ctx.rank(kernel) - 2
    kernel = ctx.emit("Transpose", kernel, perm=[rank + 1, rank, *range(rank)])
    return ctx.emit("Transpose", images, perm=[0, rank + 1, *range(1, rank + 1)]) if is_last else images, kernel


def _as_given(ctx: Replacement, images: str, rank: int, is_last: bool) -> str:
    return ctx.emit("Transpose", images, perm=[0, *range(2, rank + 2), 1]) if is_last else images


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
