"""The same model in float64, and the context in which its backend computes in float64 at all."""

import contextlib
from typing import Any

import numpy as np

from keras_pe.export.model.cloning import with_dtype
from keras_pe.export.model.exact_resizing import exact_resizing


def in_float64(model: Any) -> Any:
    """Returns a model made again in float64, with the same weights. It is to be called within `float64_allowed`.

    Raises:
        ValueError: If the model cannot be made again.
    """
    with float64_allowed():
        return with_dtype(model, "float64")


def float64_allowed(rng: np.random.Generator | None = None) -> contextlib.AbstractContextManager[Any]:
    """Returns a context in which the backend computes in float64 where it is asked to.

    JAX does not by itself, and TensorFlow resizes no image so.

    Args:
        rng: Nudges what of a model's values is neither an input nor a weight: see `exact_resizing`.
    """
    import keras

    if keras.backend.backend() == "tensorflow":
        return exact_resizing(rng)
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    context: contextlib.AbstractContextManager[Any] = jax.enable_x64(True)
    return context
