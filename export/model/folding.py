"""A normalization as what it is at inference, an affine map, which the weights of the layer before it can hold."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDED_KEY = "keras_pe.folded"
"""Where a file says what it stores as one: JSON, the path of a normalization by that of the layer before it."""

_Array = npt.NDArray[np.float64]


def is_linear(layer: Any) -> bool:
    """Whether a layer is a product with its kernel and a sum, to which a normalization after it can be added."""
    import keras

    layers = keras.layers
    kinds = (
        *(layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.DepthwiseConv1D, layers.DepthwiseConv2D, layers.Dense),
        *(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
        *(layers.SeparableConv1D, layers.SeparableConv2D),
    )
    return isinstance(layer, kinds) and layer.built and layer.activation is keras.activations.linear


def kernel_of(layer: Any) -> Any:
    """Returns the variable of a linear layer that a normalization after it is multiplied into: the last it applies."""
    return layer.pointwise_kernel if hasattr(layer, "pointwise_kernel") else layer.kernel


def is_foldable(layer: Any, after: Any) -> bool:
    """Whether exporters fold the second layer into the weights of the first."""
    import keras

    return is_linear(layer) and isinstance(after, keras.layers.BatchNormalization)


def affine_map(norm: Any, bias: Any = 0.0) -> tuple[_Array, _Array]:
    """Returns what a normalization multiplies each channel by, and then adds to it, where the input lacks a bias."""
    with np.errstate(invalid="ignore", divide="ignore"):  # a variance that is none makes NaN in Keras as well
        scale: _Array = 1.0 / np.sqrt(_array(norm.moving_variance) + norm.epsilon)
    scale = scale * _array(norm.gamma) if norm.scale else scale
    shift = (bias - _array(norm.moving_mean)) * scale
    return scale, shift + (_array(norm.beta) if norm.center else 0.0)


@dataclass(frozen=True)
class Folding:
    """A layer, and the normalization after it: those of `is_foldable`."""

    layer: Any
    norm: Any

    @property
    def bias_owner(self) -> Any:
        """The variable under whose name the bias of both is stored."""
        if self.layer.bias is not None:
            return self.layer.bias
        return self.norm.beta if self.norm.center else self.norm.moving_mean

    @property
    def gone(self) -> set[str]:
        """The paths of the variables that are stored under no name of their own."""
        return {variable.path for variable in self.norm.variables} - {self.bias_owner.path}

    @property
    def own_bias(self) -> Any:
        """What the layer adds itself."""
        return _array(self.layer.bias) if self.layer.bias is not None else 0.0

    def kernel(self) -> npt.NDArray[np.float32]:
        """Returns the kernel of both, as Keras lays it out, rounded once."""
        import keras

        layers = keras.layers
        kernel, own = _array(kernel_of(self.layer)), affine_map(self.norm)[0]  # the channels that leave are last
        if isinstance(self.layer, layers.DepthwiseConv1D | layers.DepthwiseConv2D):
            own = own.reshape(kernel.shape[-2:])
        elif isinstance(self.layer, layers.Conv1DTranspose | layers.Conv2DTranspose | layers.Conv3DTranspose):
            own = own[:, np.newaxis]
        folded: npt.NDArray[np.float32] = (kernel * own).astype(np.float32)
        return folded

    def bias(self) -> npt.NDArray[np.float32]:
        """Returns what both add to each channel, rounded once."""
        return affine_map(self.norm, self.own_bias)[1].astype(np.float32)


@dataclass(frozen=True)
class ComputedWeight:
    """A weight that is computed from others when it is read, with what a tensor of TensorFlow's has."""

    shape: tuple[int, ...]
    numpy: Callable[[], npt.NDArray[Any]]
    dtype: type = np.float32


def foldings_to_json(foldings: Mapping[str, str]) -> str:
    """Returns the metadata of a file, the same for equal foldings."""
    return json.dumps(foldings, sort_keys=True)


def foldings_from_json(text: str) -> dict[str, str]:
    """Reads what `foldings_to_json` returned; nothing where another program wrote something else under its key."""
    try:
        return {str(layer): str(norm) for layer, norm in json.loads(text).items()}
    except (AttributeError, ValueError):
        return {}


def _array(variable: Any) -> _Array:
    import keras

    array: _Array = keras.ops.convert_to_numpy(variable.value).astype(np.float64)
    return array
