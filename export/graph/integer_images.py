"""Convolutions of integers in a form that every format has."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any


def convolution(
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
    count = len(kernel.shape) - 2
    steps, gaps = ((each,) * count if isinstance(each, int) else tuple(each) for each in (strides, dilation_rate))
    known = images.shape[1:-1]
    sizes = [tf.shape(images)[axis] if size is None else size for axis, size in enumerate(known, 1)]
    reaches = [gap * (size - 1) + 1 for gap, size in zip(gaps, kernel.shape, strict=False)]
    if padding == "same":
        made = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
        missing = [tf.maximum((m - 1) * s + r - n, 0) for m, s, r, n in zip(made, steps, reaches, sizes, strict=True)]
        images = tf.pad(images, [[0, 0], *([each // 2, each - each // 2] for each in missing), [0, 0]])
    else:
        made = [(size - reach) // step + 1 for size, step, reach in zip(sizes, steps, reaches, strict=True)]
    total = None
    for place in itertools.product(*(range(size) for size in kernel.shape[:count])):
        starts = [gap * each for gap, each in zip(gaps, place, strict=True)]
        ends = [start + (m - 1) * step + 1 for start, m, step in zip(starts, made, steps, strict=True)]
        cut = [slice(*each) for each in zip(starts, ends, steps, strict=True)]
        pixels = images[(slice(None), *cut)]
        products = tf.reduce_sum(tf.expand_dims(pixels, -1) * kernel[place], -2)
        total = products if total is None else total + products
    return total
