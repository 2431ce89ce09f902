"""The pixels under each position of a sliding window, as slices of the images, and integer convolutions from them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def windows(
    images: Any, kernel: Sequence[int], strides: Sequence[int], gaps: Sequence[int], padding: str, fill: Any = 0
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yields each index within a window, and the pixels at this index for all positions of the window.

    Args:
        images: `(batch, d1, ..., dn, channels)`.
        kernel: The sizes of the window, one for each axis of an image.
        strides: The strides of the window, one for each axis.
        gaps: The dilations of the window, one for each axis.
        padding: "SAME" or "VALID".
        fill: The value of padded pixels.
    """
    import tensorflow as tf

    reaches = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
    if padding == "SAME":
        sides = [_sides(images, axis, *each) for axis, each in enumerate(zip(reaches, strides, strict=True), 1)]
        added = tf.stack([[0, 0], *map(tf.stack, sides), [0, 0]])
        images = tf.pad(images, added, constant_values=tf.cast(fill, images.dtype))
    moves = [
        (size_of(images, axis) - reach) // stride * stride
        for axis, (reach, stride) in enumerate(zip(reaches, strides, strict=True), 1)
    ]
    for place in itertools.product(*map(range, kernel)):
        starts = [gap * each for gap, each in zip(gaps, place, strict=True)]
        cuts = [slice(start, start + move + 1, step) for start, move, step in zip(starts, moves, strides, strict=True)]
        yield place, images[(slice(None), *cuts)]


def _sides(images: Any, axis: int, reach: int, stride: int) -> tuple[Any, Any]:
    """Returns the padding before and after an axis for "SAME"."""
    import tensorflow as tf

    size = size_of(images, axis)
    missing = (-(-size // stride) - 1) * stride + reach - size
    added = max(missing, 0) if isinstance(missing, int) else tf.maximum(missing, 0)
    return added // 2, added - added // 2


def size_of(images: Any, axis: int) -> Any:
    """Returns the size of an axis: an int if the size is known, else a tensor."""
    import tensorflow as tf

    return tf.shape(images)[axis] if images.shape[axis] is None else int(images.shape[axis])


def repeat_for_axes(value: int | Sequence[int], rank: int) -> list[int]:
    """Returns a stride or dilation as one number for each axis of an image."""
    return [value] * rank if isinstance(value, int) else [*value]


def integer_convolution(
    usual: Callable[..., Any],
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Any:
    """Replaces `keras.ops.conv`. An integer convolution becomes a sum of products, which is exact.

    ONNX Runtime and LiteRT have no convolution of int32. Each pixel of the kernel contributes the product of a slice of
    the images with the weights of the pixel.
    """
    import keras
    import tensorflow as tf

    images, kernel = tf.convert_to_tensor(inputs), tf.convert_to_tensor(kernel)
    is_grouped = kernel.shape[-2] != images.shape[-1]
    is_last = (data_format or keras.config.image_data_format()) == "channels_last"
    if not images.dtype.is_integer or is_grouped or not is_last or padding not in ("same", "valid"):
        return usual(inputs, kernel, strides, padding, data_format, dilation_rate)
    sizes = kernel.shape[:-2].as_list()
    steps, gaps = (repeat_for_axes(each, len(sizes)) for each in (strides, dilation_rate))
    total = None
    for place, pixels in windows(images, sizes, steps, gaps, padding.upper()):
        products = tf.reduce_sum(tf.expand_dims(pixels, -1) * kernel[place], -2)
        total = products if total is None else total + products
    return total
