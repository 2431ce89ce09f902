"""A normalization that an exporter has folded into the layer before it: at inference both are one affine map."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.recorded_outputs import content_key
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays


def is_foldable(layer: Any, after: Any) -> bool:
    """Whether exporters fold the second layer into the weights of the first."""
    import keras

    layers = keras.layers
    kinds = layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.DepthwiseConv1D, layers.DepthwiseConv2D, layers.Dense
    is_linear = isinstance(layer, kinds) and layer.activation is keras.activations.linear
    return is_linear and isinstance(after, layers.BatchNormalization)


def foldable_pairs(calls: Sequence[LayerCall]) -> list[tuple[Any, Any]]:
    """Returns layers, each with the normalization that alone is given what it returns.

    Args:
        calls: Of the model, recorded in one run.
    """
    given: dict[bytes, list[LayerCall]] = {}
    for call in calls:
        for key in {content_key(array) for array in call.inputs}:
            given.setdefault(key, []).append(call)
    pairs = []
    for call in calls:
        users = given.get(content_key(call.outputs[0]), []) if call.outputs else []
        # A model within the model is given what its first layer is given.
        inner = [each for each in users if not any(other.path.startswith(f"{each.path}/") for other in users)]
        if len(inner) == 1 and is_foldable(call.layer, inner[0].layer):
            pairs.append((call.layer, inner[0].layer))
    return pairs


def folded_weights(pairs: Iterable[tuple[Any, Any]]) -> tuple[Arrays, set[str]]:
    """Returns the weights as they stand in an artifact, and the paths of those that do not stand there any more.

    Args:
        pairs: Layers, each with the normalization that was folded into it. They are those of `is_foldable`.
    """
    stored: Arrays = {}
    gone: set[str] = set()
    for layer, norm in pairs:
        scale = 1.0 / np.sqrt(_array(norm.moving_variance) + norm.epsilon)
        scale = scale * _array(norm.gamma) if norm.scale else scale
        bias = _array(layer.bias) if layer.bias is not None else 0.0
        shift = (bias - _array(norm.moving_mean)) * scale + (_array(norm.beta) if norm.center else 0.0)
        kernel = _array(layer.kernel)
        # The channels that leave are last; those of a depthwise convolution are last two.
        own = scale.reshape(kernel.shape[-2:]) if kernel.shape[-1] != scale.size else scale
        stored[layer.kernel.path] = (kernel * own).astype(np.float32)
        gone |= {variable.path for variable in norm.variables}
        kept = layer.bias if layer.bias is not None else norm.beta if norm.center else norm.moving_mean
        stored[kept.path] = shift.astype(np.float32)
    return stored, gone - stored.keys()


def _array(variable: Any) -> Array:
    import keras

    array: Array = keras.ops.convert_to_numpy(variable.value).astype(np.float64)
    return array
