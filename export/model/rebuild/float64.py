"""The same model in float64, and the context in which its backend computes in float64 at all.

TensorFlow resizes in float32 whatever it is given, and its places between pixels are off by some 1e-7 of the size: up
to a hundred times the noise of everything after it.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_pe.export.model.rebuild.cloning import with_dtype
from keras_pe.export.model.watch.keras_internals import float64_promoted, replaced_tensorflow_resizing


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
