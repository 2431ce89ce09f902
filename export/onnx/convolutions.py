"""Convolutions of images of any size, traced without computing one: what is padded or cut off does not depend on it."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from keras_pe.export.graph.windows import integer_convolution
from keras_pe.export.onnx.operator_calls import call_operator, differentiable


def convolution(usual: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Returns a convolution with kernels that have gaps, padded by itself.

    What it pads to keep the size is known from the kernel. TensorFlow computes it from the size, where that is not
    known, in some fifty operators around blocks of pixels.

    Args:
        usual: Computes it: Keras' function of the images, one kernel or two, and how they meet.
        arguments: Its arguments.
        options: Those by name.
    """
    import tensorflow as tf

    bound = inspect.signature(usual).bind(*arguments, **options)
    bound.apply_defaults()
    given = bound.arguments
    x, kernel, *_ = given.values()
    if tf.as_dtype(x.dtype).is_integer and usual.__name__ == "conv":
        return integer_convolution(usual, **given)
    rank = len(kernel.shape) - 2
    strides, gaps = (_of_each_axis(given[name], rank) for name in ("strides", "dilation_rate"))
    image = _axes_of_image(given["data_format"], rank)
    is_known = all(x.shape[axis] is not None for axis in image)
    if given["padding"] != "same" or max(gaps) == 1 or max(strides) > 1 or is_known:
        return usual(**given)
    paddings = [[0, 0]] * len(x.shape)
    for axis, size, gap in zip(image, kernel.shape, gaps, strict=False):
        added = gap * (size - 1)
        paddings[axis] = [added // 2, added - added // 2]
    return usual(**given | {"inputs": tf.pad(x, paddings), "padding": "valid"})


_PIXELS = 8  # along each axis of an example; any number will do


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
    """Returns a transposed convolution of images of any size, of which as much is cut off whatever the size.

    TensorFlow is told the size of the result, which is computed in some twenty operators.
    """
    import keras
    import tensorflow as tf

    rank, options = len(kernel.shape) - 2, (strides, padding, output_padding, data_format, dilation_rate)
    image = _axes_of_image(data_format, rank)
    if inputs.dtype != "float32" or all(inputs.shape[axis] is not None for axis in image):
        return usual(inputs, kernel, *options)

    def returned(shape: Sequence[int | None]) -> list[int | None]:
        images, kernels = (keras.KerasTensor(tuple(each)) for each in (shape, kernel.shape))
        return list(keras.ops.conv_transpose(images, kernels, *options).shape)

    example = returned([_PIXELS if axis in image else size for axis, size in enumerate(inputs.shape)])
    attributes: dict[str, Any] = {
        "sizes": [example[axis] for axis in image],
        "strides": _of_each_axis(strides, rank),
        "dilations": _of_each_axis(dilation_rate, rank),
    }
    shape = returned(inputs.shape)
    added = [image[0]] if rank == 1 else []  # TensorFlow makes an image of one row of a line
    shape[image[0] : image[0]] = [1] * len(added)
    attributes = {name: [1] * len(added) + values for name, values in attributes.items()}
    attributes |= {"is_same": padding.lower() == "same", "is_last": image[0] == 1}

    def call(images: Any, kernel: Any) -> Any:
        for axis in added:
            images, kernel = tf.expand_dims(images, axis), tf.expand_dims(kernel, 0)
        result = call_operator("ConvTranspose", [images, kernel], [shape], attributes)[0]
        return tf.squeeze(result, added) if added else result

    return differentiable(call, lambda images, kernel: usual(images, kernel, *options), inputs, kernel)


def _of_each_axis(value: int | Sequence[int], rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _axes_of_image(data_format: str | None, rank: int) -> range:
    import keras

    is_last = (data_format or keras.config.image_data_format()) == "channels_last"
    return range(1, rank + 1) if is_last else range(2, rank + 2)
