"""Convolutions of images of any size, whose padding or cropping is constant and therefore not computed in the graph."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from keras_pe.export.graph.sliding_windows import integer_convolution, repeat_for_axes
from keras_pe.export.onnx.operator_calls import call_operator, differentiable


def convolution(usual: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Replaces a dilated convolution with "same" padding by a padding and a convolution.

    The padding follows from the kernel alone. For an unknown size, TensorFlow computes it in about fifty operators with
    blocks of pixels.

    Args:
        usual: Keras' function for the convolution.
        arguments: The positional arguments of the function.
        options: The keyword arguments of the function.
    """
    import tensorflow as tf

    bound = inspect.signature(usual).bind(*arguments, **options)
    bound.apply_defaults()
    given = bound.arguments
    x, kernel, *_ = given.values()
    if tf.as_dtype(x.dtype).is_integer and usual.__name__ == "conv":
        return integer_convolution(usual, **given)
    rank = len(kernel.shape) - 2
    strides, gaps = (repeat_for_axes(given[name], rank) for name in ("strides", "dilation_rate"))
    image = _axes_of_image(given["data_format"], rank)
    is_known = all(x.shape[axis] is not None for axis in image)
    if given["padding"] != "same" or max(gaps) == 1 or max(strides) > 1 or is_known:
        return usual(**given)
    paddings = [[0, 0]] * len(x.shape)
    for axis, size, gap in zip(image, kernel.shape, gaps, strict=False):
        added = gap * (size - 1)
        paddings[axis] = [added // 2, added - added // 2]
    return usual(**given | {"inputs": tf.pad(x, paddings), "padding": "valid"})


_PIXELS = 8  # the size of each axis of an example; any size gives the right padding


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
    """Replaces a transposed convolution of images of unknown size. It crops the result by a constant.

    TensorFlow takes the size of the result as an input, and computes it in about twenty operators.
    """
    import keras
    import tensorflow as tf

    rank, options = len(kernel.shape) - 2, (strides, padding, output_padding, data_format, dilation_rate)
    image = _axes_of_image(data_format, rank)
    if inputs.dtype != "float32" or all(inputs.shape[axis] is not None for axis in image):
        return usual(inputs, kernel, *options)

    def output_shape(shape: Sequence[int | None]) -> list[int | None]:
        images, kernels = (keras.KerasTensor(tuple(each)) for each in (shape, kernel.shape))
        return list(keras.ops.conv_transpose(images, kernels, *options).shape)

    example = output_shape([_PIXELS if axis in image else size for axis, size in enumerate(inputs.shape)])
    attributes: dict[str, Any] = {
        "sizes": [example[axis] for axis in image],
        "strides": repeat_for_axes(strides, rank),
        "dilations": repeat_for_axes(dilation_rate, rank),
    }
    shape = output_shape(inputs.shape)
    added = [image[0]] if rank == 1 else []  # a 1-D input becomes an image of height 1, as in TensorFlow
    shape[image[0] : image[0]] = [1] * len(added)
    attributes = {name: [1] * len(added) + values for name, values in attributes.items()}
    attributes |= {"is_same": padding.lower() == "same", "is_last": image[0] == 1}

    def call(images: Any, kernel: Any) -> Any:
        for axis in added:
            images, kernel = tf.expand_dims(images, axis), tf.expand_dims(kernel, 0)
        result = call_operator("ConvTranspose", [images, kernel], [shape], attributes)[0]
        return tf.squeeze(result, added) if added else result

    return differentiable(call, lambda images, kernel: usual(images, kernel, *options), inputs, kernel)


def _axes_of_image(data_format: str | None, rank: int) -> range:
    import keras

    is_last = (data_format or keras.config.image_data_format()) == "channels_last"
    return range(1, rank + 1) if is_last else range(2, rank + 2)
