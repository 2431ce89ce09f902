"""The same model in another precision: in half precision or out of it for an export, in float64 to measure by.

The runtimes have no bfloat16 kernels to speak of, and float16 differs between them by more than a comparison can allow.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.model.rebuild.cloning import with_dtype
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import all_layers, float64_promoted, replaced_tensorflow_resizing


def half_dtypes(layers: Iterable[Any]) -> list[str]:
    """Returns the half-precision types that the layers compute in or keep weights in."""
    dtypes = {dtype for layer in layers for dtype in (layer.compute_dtype, layer.variable_dtype)}
    return sorted(dtypes & {"bfloat16", "float16"})


def in_export_precision(
    model: Any, input_signature: Any, wanted: str | None, format: Format
) -> tuple[list[Any], Any, list[str]]:
    """Returns the model to export, followed by its layers, its signature, and what differs from the given one.

    Args:
        model: The Keras model.
        input_signature: As it was given. A `Signature` is returned in the other precision.
        wanted: "float32", of which only models of half precision are made again; "float16"; or None for any.
        format: For the error.

    Raises:
        UnsupportedError: If the model must be made again and cannot be.
    """
    layers = all_layers(model)
    found = half_dtypes(layers)
    as_wanted = ["float16"] if wanted == "float16" else []
    if wanted is None or found == as_wanted:
        return layers, input_signature, []
    given = " and ".join(found) or "float32"
    try:
        layers = all_layers(with_dtype(model, wanted))
        if half_dtypes(layers) != as_wanted:
            raise ValueError(f"some of its layers compute in {given} whatever their policy.")
    except ValueError as error:
        raise UnsupportedError(
            format,
            model.name,
            f"it computes in {given} and cannot be made again in {wanted}: {error} "
            f"Build it under the policy {wanted!r}, load the weights, and export that.",
        ) from error
    if isinstance(input_signature, Signature):
        input_signature = input_signature.with_dtype(wanted)
    note = f"The model computes in {given}; exported is the same model with the same weights in {wanted}."
    return layers, input_signature, [note]


def in_float64(model: Any) -> Any:
    """Returns a model made again in float64, with the same weights. It is to be called within `float64_allowed`.

    Raises:
        ValueError: If the model cannot be made again.
    """
    with float64_allowed():
        return with_dtype(model, "float64")


@contextlib.contextmanager
def float64_allowed(rng: np.random.Generator | None = None) -> Iterator[None]:
    """A context in which the backend computes in float64 where it is asked to, as none does by itself.

    JAX has no float64 unless it is told to, Keras cuts it on JAX and PyTorch, and TensorFlow resizes no image so.

    Args:
        rng: Nudges what of a model's values is neither an input nor a weight: see `exact_resizing`.
    """
    import keras

    with contextlib.ExitStack() as stack:
        if keras.backend.backend() == "tensorflow":
            stack.enter_context(exact_resizing(rng))
        else:
            stack.enter_context(float64_promoted())
        if keras.backend.backend() == "jax":
            import jax

            stack.enter_context(jax.enable_x64(True))
        yield


_HEIGHT, _WIDTH = -3, -2  # the axes of an image


def exact_resizing(rng: np.random.Generator | None = None) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which `tf.image.resize` resizes float64 images in float64, in this thread.

    Args:
        rng: Nudges the places between pixels by up to a unit in the last place of float32, each time anew: what is as
            right as Keras' own places. Some runtimes round them where TensorFlow does not, at a ratio of 1.75 say.
    """
    import tensorflow as tf

    def resize(usual: Any, images: Any, size: Any, method: str = "bilinear", *args: Any, **kwargs: Any) -> Any:
        is_plain = method == "bilinear" and not args and not any(kwargs.values())
        is_wide = tf.as_dtype(getattr(images, "dtype", "float32")) == tf.float64
        return _bilinear(images, size, rng) if is_plain and is_wide else usual(images, size, method, *args, **kwargs)

    return replaced_tensorflow_resizing(resize)


def _bilinear(images: Any, size: Any, rng: np.random.Generator | None) -> Any:
    """Returns the mean of the two pixels around each place, by their distance, along one axis after the other."""
    import tensorflow as tf

    for axis, new in ((_HEIGHT, size[0]), (_WIDTH, size[1])):
        old = tf.shape(images)[axis]
        ratio = tf.cast(old, "float64") / tf.cast(new, "float64")
        places = (tf.range(tf.cast(new, "float64"), dtype="float64") + 0.5) * ratio
        if rng is not None:
            places *= 1 + 2.0**-23 * rng.uniform(-1, 1, int(new))
        places = tf.clip_by_value(places - 0.5, 0, tf.cast(old - 1, "float64"))
        below = tf.cast(places, "int32")
        weights = tf.reshape(places - tf.cast(below, "float64"), (-1, *[1] * (-1 - axis)))
        pixels = [tf.gather(images, indices, axis=axis) for indices in (below, tf.minimum(below + 1, old - 1))]
        images = pixels[0] + (pixels[1] - pixels[0]) * weights
    return images
