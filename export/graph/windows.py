"""The images of the pixels under each place of a window, as slices, and convolutions of integers made of them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def windows(
    images: Any, kernel: Sequence[int], strides: Sequence[int], gaps: Sequence[int], padding: str, fill: Any = 0
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yields each place of a window and the pixels that it has under itself while the window moves over the images.

    Args:
        images: `(batch, d1, ..., dn, channels)`.
        kernel: Sizes of the window, one for each axis of an image, like the next two.
        strides: How far the window moves.
        gaps: Distances of its places.
        padding: "SAME" or "VALID".
        fill: The value of pixels that are padded.
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
    """Returns how much is added before and after an axis so that as many windows fit as strides do."""
    import tensorflow as tf

    size = size_of(images, axis)
    missing = (-(-size // stride) - 1) * stride + reach - size
    added = max(missing, 0) if isinstance(missing, int) else tf.maximum(missing, 0)
    return added // 2, added - added // 2


def size_of(images: Any, axis: int) -> Any:
    """Returns the size of an axis: a number if it is known, else a tensor."""
    import tensorflow as tf

    return tf.shape(images)[axis] if images.shape[axis] is None else int(images.shape[axis])


def integer_convolution(
    usual: Callable[..., Any],
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Any:
    """Returns what `keras.ops.conv` does. One of integers is a sum of products, which is exact.

    ONNX Runtime and LiteRT have no convolution of int32. A pixel of the kernel is a slice of the image, and a product
    with its weights.
    """
    import keras
    import tensorflow as tf

    images, kernel = tf.convert_to_tensor(inputs), tf.convert_to_tensor(kernel)
    is_grouped = kernel.shape[-2] != images.shape[-1]
    is_last = (data_format or keras.config.image_data_format()) == "channels_last"
    if not images.dtype.is_integer or is_grouped or not is_last or padding not in ("same", "valid"):
        return usual(inputs, kernel, strides, padding, data_format, dilation_rate)
    sizes = kernel.shape[:-2].as_list()
    steps, gaps = ([each] * len(sizes) if isinstance(each, int) else [*each] for each in (strides, dilation_rate))
    total = None
    for place, pixels in windows(images, sizes, steps, gaps, padding.upper()):
        products = tf.reduce_sum(tf.expand_dims(pixels, -1) * kernel[place], -2)
        total = products if total is None else total + products
    return total
