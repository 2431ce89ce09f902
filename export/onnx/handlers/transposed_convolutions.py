"""Transposed convolutions: the gradient of a convolution with respect to its image, whose shape is an argument.

If ONNX's operator gets a shape, it puts the larger half of an odd padding on the other side. It also rejects an image
that extends beyond the last kernel.

Source: tensorflow/core/framework/kernel_shape_util.cc.
"""

from dataclasses import dataclass

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


@dataclass(frozen=True)
class _Axis:
    """One axis of the image: its stride, and the pixels that a kernel spans with its dilation."""

    stride: int
    reach: int

    def padding(self, size: int, is_same: bool) -> tuple[int, int, int]:
        """Returns the pixels to cut off before and after the full result, and the zeros to append."""
        kernels = -(-size // self.stride) if is_same else (size - self.reach) // self.stride + 1
        excess = self.stride * (kernels - 1) + self.reach - size
        before = max(excess, 0) // 2
        return before, max(excess, 0) - before, max(-excess, 0)


@handler("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def gradient(ctx: Replacement, sizes: str, kernel: str, images: str, *bias: str) -> str:
    """Writes the transposed convolution, cut or padded with zeros to the requested shape."""
    rank = ctx.rank(images) - 2
    is_same, is_last = ctx.attribute("padding") == "SAME", ctx.attribute("data_format").endswith("C")
    first = 1 if is_last else 2  # axis of the image
    steps = {name: ctx.attribute(name)[first : first + rank] for name in ("strides", "dilations")}
    known = ctx.known_sizes(sizes)  # a list, whose batch may be -1; None if not constant
    if known is not None:
        fixed = [int(size) for size in known[first : first + rank]]
        return transposed_convolution(
            ctx, images, kernel, *bias, sizes=fixed, is_same=is_same, is_last=is_last, **steps
        )
    axes = _axes(ctx, kernel, **steps)
    wanted = ctx.emit("Slice", ctx.cast(sizes, "int64"), [first], [first + rank])
    whole = ctx.emit("ConvTranspose", *_channels_first(ctx, images, kernel, is_last), **steps)
    result = _cut(ctx, whole, wanted, axes, is_same)
    for each in bias:  # the padded zeros get the bias too
        result = ctx.emit("Add", result, ctx.emit("Unsqueeze", each, range(1, rank + 1)))
    return _restore_layout(ctx, result, rank, is_last)


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
    """Writes one ConvTranspose.

    Args:
        ctx: The replacement that writes the nodes.
        images: The input, with channels last or first.
        kernel: The kernel, in TensorFlow's layout.
        bias: The bias of the channels, or nothing.
        sizes: Dimensions of one possible output image. They fix the padding of every input: one more input pixel
            adds `stride` output pixels.
        strides: One stride for each axis of the image.
        dilations: One dilation for each axis of the image.
        is_same: Whether the forward convolution pads its images.
        is_last: Whether the channels are last.
    """
    axes = _axes(ctx, kernel, strides, dilations)
    paddings = [axis.padding(size, is_same) for axis, size in zip(axes, sizes, strict=True)]
    before, after, added = (list(column) for column in zip(*paddings, strict=True))
    cut = {"pads": [*before, *after], "output_padding": added}
    inputs = [*_channels_first(ctx, images, kernel, is_last), *bias]
    result = ctx.emit("ConvTranspose", *inputs, strides=strides, dilations=dilations, **cut)
    return _restore_layout(ctx, result, len(axes), is_last)


def _axes(ctx: Replacement, kernel: str, strides: list[int], dilations: list[int]) -> list[_Axis]:
    sizes = ctx.known_shape(kernel)[: len(strides)]
    columns = zip(strides, sizes, dilations, strict=True)
    return [_Axis(stride, (size - 1) * dilation + 1) for stride, size, dilation in columns]


def _channels_first(ctx: Replacement, images: str, kernel: str, is_last: bool) -> tuple[str, str]:
    rank = ctx.rank(kernel) - 2
    kernel = ctx.emit("Transpose", kernel, perm=[rank + 1, rank, *range(rank)])
    return ctx.emit("Transpose", images, perm=[0, rank + 1, *range(1, rank + 1)]) if is_last else images, kernel


def _restore_layout(ctx: Replacement, images: str, rank: int, is_last: bool) -> str:
    return ctx.emit("Transpose", images, perm=[0, *range(2, rank + 2), 1]) if is_last else images


def _cut(ctx: Replacement, whole: str, sizes: str, axes: list[_Axis], is_same: bool) -> str:
    """Cuts or pads the full result to dimensions that are computed at run time."""
    actual = ctx.emit("Slice", ctx.emit("Shape", whole), [2], [2 + len(axes)])
    excess = ctx.emit("Sub", actual, sizes)
    result = whole
    if is_same:
        before = ctx.emit("Div", ctx.emit("Max", excess, [0]), [2])
        result = ctx.emit("Slice", whole, before, ctx.emit("Add", before, sizes), range(2, 2 + len(axes)))
    if any(axis.stride > (axis.reach if is_same else 1) for axis in axes):
        added = ctx.emit("Max", ctx.emit("Neg", excess), [0])
        none = [0] * (2 + len(axes))  # before every axis, and after the batch and the channels
        result = ctx.emit("Pad", result, ctx.emit("Concat", [*none, 0, 0], added, axis=0))
    return result
