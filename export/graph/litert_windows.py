"""Operators with a sliding window in forms that LiteRT can run: convolutions, pools and patches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_pe.export.graph.sliding_windows import integer_convolution, repeat_for_axes, size_of, windows

_HEIGHT, _WIDTH = 1, 2  # the axes of an image, channels last


def window_form(kind: str, given: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the function that writes an operator with a window; None if LiteRT has the operator.

    Args:
        kind: The type of the operator.
        given: The inputs and attributes of the operator, by name.
    """
    is_last = given.get("data_format", "NHWC") in ("NHWC", "NDHWC")
    if is_last == (kind == "BiasAdd"):
        return None
    return None if kind == "MaxPool" and given["input"].dtype == "float32" else _FORMS.get(kind)


def depthwise_convolution(
    images: Any, kernel: Any, strides: list[int], gaps: list[int], padding: Any, is_last: bool
) -> Any:
    """Returns a depthwise convolution as one operator. LiteRT's operator accepts both strides and dilations.

    TensorFlow's function computes dilations with blocks of pixels, and needs a known number of blocks.
    """
    import tensorflow as tf

    images, kernel = tf.convert_to_tensor(images), tf.convert_to_tensor(kernel)
    strides, dilations = ([1, *each, 1] if is_last else [1, 1, *each] for each in (strides, gaps))
    return tf.raw_ops.DepthwiseConv2dNative(
        input=images,
        filter=kernel,
        strides=strides,
        padding=padding,
        data_format="NHWC" if is_last else "NCHW",
        dilations=dilations,
    )


def convolution_with_strides_and_gaps(
    _: Callable[..., Any],
    inputs: Any,
    depthwise_kernel: Any,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilation_rate: Sequence[int],
    pointwise_kernel: Any = None,
) -> Any:
    """Replaces Keras' depthwise convolution with strides and dilations, which would compute and drop most pixels."""
    import tensorflow as tf

    rank = len(strides)
    kernels = [tf.convert_to_tensor(each) for each in (depthwise_kernel, pointwise_kernel) if each is not None]
    images = _with_channels_last(inputs, data_format)
    lone = [1] * (2 - rank)  # a 1-D input becomes an image of height 1
    if lone:
        images, kernels = tf.expand_dims(images, 1), [tf.expand_dims(each, 0) for each in kernels]
    images = depthwise_convolution(
        images, kernels[0], [*lone, *strides], [*lone, *dilation_rate], padding.upper(), True
    )
    for pointwise in kernels[1:]:
        images = tf.nn.conv2d(images, pointwise, 1, "VALID")
    return _restore_format(tf.squeeze(images, [1]) if lone else images, data_format)


def convolution(
    usual: Callable[..., Any],
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Any:
    """Replaces `keras.ops.conv` for integers, and for volumes: LiteRT's operator has channels last and no dilations."""
    import tensorflow as tf

    kernel = tf.convert_to_tensor(kernel)
    steps, gaps = (repeat_for_axes(each, len(kernel.shape) - 2) for each in (strides, dilation_rate))
    if len(gaps) < 3 or tf.convert_to_tensor(inputs).dtype.is_integer:
        return integer_convolution(usual, inputs, kernel, strides, padding, data_format, dilation_rate)
    images = _with_channels_last(inputs, data_format)
    if max(gaps) == 1 and kernel.shape[-2] == images.shape[-1]:
        return _restore_format(usual(images, kernel, strides, padding, "channels_last", dilation_rate), data_format)
    return _restore_format(_convolve(images, kernel, steps, gaps, padding.upper()), data_format)


def transposed_convolution(
    usual: Callable[..., Any],
    inputs: Any,
    kernel: Any,
    strides: int | Sequence[int] = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Any:
    """Replaces a transposed convolution by one with channels last, and with dilations by a convolution.

    LiteRT's transposed operators lack the other format and dilations. Without strides, the result is the reversed
    result of a convolution. The images are reversed instead of the kernel, so that the file contains the kernel of the
    model.
    """
    import tensorflow as tf

    images, kernel = _with_channels_last(inputs, data_format), tf.convert_to_tensor(kernel)
    axes = [*range(1, len(kernel.shape) - 1)]
    steps, gaps = (repeat_for_axes(each, len(axes)) for each in (strides, dilation_rate))
    if max(gaps) == 1 or max(steps) > 1 or output_padding is not None:
        result = usual(images, kernel, strides, padding, output_padding, "channels_last", dilation_rate)
        return _restore_format(result, data_format)
    images = tf.reverse(images, axes)
    if padding == "valid":
        reaches = [gap * (size - 1) for gap, size in zip(gaps, kernel.shape, strict=False)]
        images = tf.pad(images, [[0, 0], *([reach, reach] for reach in reaches), [0, 0]])
    result = _convolve(images, tf.linalg.matrix_transpose(kernel), steps, gaps, padding.upper())
    return _restore_format(tf.reverse(result, axes), data_format)


def _convolve(images: Any, kernel: Any, strides: list[int], gaps: list[int], padding: str) -> Any:
    """Returns a convolution of images with channels last, as one 2-D operator. Frames of volumes become channels."""
    import tensorflow as tf

    *sizes, channels, filters = kernel.shape.as_list()
    if len(sizes) < 3:
        return tf.nn.convolution(images, kernel, strides, padding, dilations=gaps)
    height, width = size_of(images, 2), size_of(images, 3)
    split = [-1, height, width, images.shape[-1] // channels, channels]  # the channels by group
    frames = [frame for _, frame in windows(images, [sizes[0], 1, 1], [strides[0], 1, 1], [gaps[0], 1, 1], padding)]
    planes = tf.concat([tf.reshape(frame, split) for frame in frames], -1)
    planes = tf.reshape(planes, [-1, height, width, sizes[0] * images.shape[-1]])
    kernel = tf.reshape(tf.transpose(kernel, [1, 2, 0, 3, 4]), [*sizes[1:], sizes[0] * channels, filters])
    planes = tf.nn.conv2d(planes, kernel, strides[1:], padding, dilations=gaps[1:])
    return tf.reshape(planes, [-1, size_of(frames[0], 1), size_of(planes, 1), size_of(planes, 2), filters])


def _with_channels_last(images: Any, data_format: str | None) -> Any:
    import tensorflow as tf

    images = tf.convert_to_tensor(images)
    return images if _is_last(data_format) else tf.transpose(images, [0, *range(2, len(images.shape)), 1])


def _restore_format(images: Any, data_format: str | None) -> Any:
    """Returns images with channels last in the format of Keras' function."""
    import tensorflow as tf

    rank = len(images.shape)
    return images if _is_last(data_format) else tf.transpose(images, [0, rank - 1, *range(1, rank - 1)])


def _is_last(data_format: str | None) -> bool:
    import keras

    return (data_format or keras.config.image_data_format()) == "channels_last"


def _add_bias(_: Callable[..., Any], value: Any, bias: Any, **__: Any) -> Any:
    import tensorflow as tf

    return value + tf.reshape(bias, [-1, *[1] * (value.shape.rank - 2)])


def _max_pool(
    _: Callable[..., Any], input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", **__: Any
) -> Any:
    """Computes the maximum of a window by comparing its pixels one by one: LiteRT has no pool of integers."""
    import tensorflow as tf

    input, result = tf.convert_to_tensor(input), None
    wide = tf.cast(input, "int32") if input.dtype.is_integer and input.dtype.size < 4 else input
    for _place, pixels in windows(wide, ksize[1:3], strides[1:3], [1, 1], padding, input.dtype.min):
        result = pixels if result is None else tf.maximum(result, pixels)
    return tf.cast(result, input.dtype)


def _patches(_: Callable[..., Any], images: Any, ksizes: Any, strides: Any, rates: Any, padding: Any, **__: Any) -> Any:
    """Returns the pixels of each patch as channels, row by row."""
    import tensorflow as tf

    return tf.concat([pixels for _place, pixels in windows(images, ksizes[1:3], strides[1:3], rates[1:3], padding)], -1)


def _pool_of_volumes(kind: str) -> Callable[..., Any]:
    """Returns the form of a 3-D pool: a pool over two axes, then a pool over the third."""

    def form(_: Callable[..., Any], input: Any, ksize: Any, strides: Any, padding: Any, **__: Any) -> Any:
        import tensorflow as tf

        def pool(images: Any, sizes: Any, steps: Any) -> Any:
            given = {"value" if kind == "AvgPool" else "input": images, "padding": padding}
            return getattr(tf.raw_ops, kind)(ksize=[1, *sizes, 1], strides=[1, *steps, 1], **given)

        depth, height, width, channels = (size_of(input, axis) for axis in range(1, 5))
        planes = pool(tf.reshape(input, [-1, height, width, channels]), ksize[2:4], strides[2:4])
        height, width = size_of(planes, _HEIGHT), size_of(planes, _WIDTH)
        stacks = tf.reshape(planes, [-1, depth, height * width, channels])
        stacks = pool(stacks, [ksize[1], 1], [strides[1], 1])
        return tf.reshape(stacks, [-1, size_of(stacks, _HEIGHT), height, width, channels])

    return form


_FORMS: dict[str, Callable[..., Any]] = {
    "AvgPool3D": _pool_of_volumes("AvgPool"),
    "BiasAdd": _add_bias,  # only with channels first
    "ExtractImagePatches": _patches,
    "MaxPool": _max_pool,
    "MaxPool3D": _pool_of_volumes("MaxPool"),
}
