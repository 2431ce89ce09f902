"""The same model in float64, and the context in which its backend computes in float64 at all."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_pe.export.model.rebuild.cloning import with_dtype
from keras_pe.export.model.rebuild.exact_resizing import exact_resizing
from keras_pe.export.model.watch.keras_internals import float64_promoted


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
