"""Statistics as training leaves them: of fresh ones a normalization does next to nothing, and hides what is wrong."""

import contextlib
from typing import Any
from unittest import mock

import keras
import numpy as np


def as_trained(model: Any) -> Any:
    """Returns the model, its normalizations with means, variances, scales and shifts that are not 0 or 1."""
    rng = np.random.default_rng(0)
    draws = {
        "moving_mean": lambda shape: rng.normal(0, 0.3, shape),
        "moving_variance": lambda shape: rng.uniform(0.5, 2, shape),
        "gamma": lambda shape: rng.uniform(0.7, 1.3, shape),
        "beta": lambda shape: rng.normal(0, 0.3, shape),
    }
    kinds = (keras.layers.BatchNormalization, keras.layers.LayerNormalization, keras.layers.GroupNormalization)
    for layer in model._flatten_layers():
        for name, draw in draws.items() if isinstance(layer, kinds) else ():
            weight = getattr(layer, name, None)
            if weight is not None:
                weight.assign(draw(weight.shape))
    return model


def as_trained_on(model: Any, inputs: np.ndarray) -> Any:
    """Returns the model `as_trained`, with the means and variances that these inputs have.

    With other statistics, each of a hundred layers stretches its inputs and the rounding error: such a model returns
    noise, in Keras too.
    """
    layers = as_trained(model)._flatten_layers()
    normalizations = [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]
    if normalizations:
        with contextlib.ExitStack() as stack:
            for layer in normalizations:
                stack.enter_context(mock.patch.object(layer, "momentum", 0.0))
            for layer in model._flatten_layers():
                if isinstance(layer, keras.layers.Dropout):
                    stack.enter_context(mock.patch.object(layer, "rate", 0.0))
            model(inputs, training=True)
    return model
