"""The layouts in which a file stores weights, if they differ from Keras' layouts.

An operator may need permuted axes or unsigned numbers. A normalization is an affine map at inference, so its weights
can be folded into those of the layer before it. ONNX's LSTM, GRU and RNN take one row for each unit, and order the
gates differently.
"""

import contextlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.artifacts.json_records import read_record

LAYOUTS_KEY = "keras_pe.layouts"
"""The metadata key of the layouts that differ from Keras': JSON, a layout by the name of the weight."""

FOLDED_KEY = "keras_pe.folded"
"""The metadata key of folded normalizations: JSON, the path of a normalization by the path of the layer before it."""

Step = tuple[str, tuple[int, ...]]
"""A NumPy function, "reshape" or "transpose", and its shape or axes.

The step "unsigned" has no argument. It adds 128 to an int8, which makes a uint8.
"""

_SIGN = np.uint8(128)
_Array = npt.NDArray[np.float64]

RECURRENT_OPERATORS = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "RNN"}

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (0, 1, 2), "RNN": (0,)}  # Keras' index of ONNX's first, second, ... gate


@dataclass(frozen=True)
class Layout:
    """The steps from a Keras weight to the stored array.

    Attributes:
        keras: The shape of the Keras variable.
        steps: The steps, in order.
    """

    keras: tuple[int, ...]
    steps: tuple[Step, ...] = ()

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape before the first step, and the shape after each step."""
        return list(itertools.accumulate(self.steps, _shape_after, initial=self.keras))

    @property
    def is_unsigned(self) -> bool:
        """Whether the weight is an int8 that the file stores as uint8."""
        return any(function == "unsigned" for function, _ in self.steps)

    def then(self, function: str, argument: Sequence[int]) -> "Layout":
        """Returns the layout with a further step."""
        return Layout(self.keras, (*self.steps, (function, tuple(int(number) for number in argument))))

    def store(self, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the array that the file stores for a Keras weight."""
        for function, argument in self.steps:
            weight = (
                weight.view(np.uint8) ^ _SIGN if function == "unsigned" else getattr(np, function)(weight, argument)
            )
        return np.ascontiguousarray(weight)

    def restore(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns a stored array in Keras' layout, without a copy if possible.

        Raises:
            ValueError: If the array and the weight differ in size.
        """
        shapes = self.shapes
        array = stored.reshape(shapes[-1])
        for (function, argument), before in zip(reversed(self.steps), reversed(shapes[:-1]), strict=True):
            if function == "unsigned":
                array = (array ^ _SIGN).view(np.int8)
            else:
                array = array.transpose(np.argsort(argument)) if function == "transpose" else array.reshape(before)
        return array


def layouts_to_json(layouts: Mapping[str, Layout]) -> str:
    """Returns the metadata of layouts. Equal layouts have equal texts."""
    values = {name: {"keras": layout.keras, "steps": layout.steps} for name, layout in layouts.items()}
    return json.dumps(values, sort_keys=True)


def layouts_from_json(text: str) -> dict[str, Layout]:
    """Returns the layouts from `layouts_to_json`; an empty dict for any other text, which another program may write."""
    with contextlib.suppress(ValueError):
        return read_record(text, _layouts, "layouts")
    return {}


def _layouts(content: Any) -> dict[str, Layout]:
    return {
        name: Layout(
            tuple(value["keras"]), tuple((str(function), tuple(argument)) for function, argument in value["steps"])
        )
        for name, value in content.items()
    }


def _shape_after(shape: tuple[int, ...], step: Step) -> tuple[int, ...]:
    function, argument = step
    if function == "unsigned":
        return shape
    return tuple(shape[axis] for axis in argument) if function == "transpose" else argument


def is_linear(layer: Any) -> bool:
    """Whether a layer is a linear map with a kernel, into which a normalization can be folded."""
    import keras

    layers = keras.layers
    kinds = (
        *(layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.DepthwiseConv1D, layers.DepthwiseConv2D, layers.Dense),
        *(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
        *(layers.SeparableConv1D, layers.SeparableConv2D),
    )
    return isinstance(layer, kinds) and layer.built and layer.activation is keras.activations.linear


def kernel_of(layer: Any) -> Any:
    """Returns the variable under whose name the factors of a normalization are stored.

    A linear layer stores them in the kernel that it applies last. A normalization on its own stores them in its `gamma`
    or its variance.
    """
    import keras

    if isinstance(layer, keras.layers.BatchNormalization):
        return layer.gamma if layer.scale else layer.moving_variance
    return layer.pointwise_kernel if hasattr(layer, "pointwise_kernel") else layer.kernel


def is_foldable(layer: Any, after: Any) -> bool:
    """Whether exporters fold the layer `after` into the weights of `layer`. Both may be one normalization."""
    import keras

    return isinstance(after, keras.layers.BatchNormalization) and (layer is after or is_linear(layer))


def affine_map(norm: Any, bias: Any = 0.0) -> tuple[_Array, _Array]:
    """Returns the factor and the term of a normalization for each channel.

    Args:
        norm: The normalization.
        bias: The bias of the layer before it, which the term includes.
    """
    with np.errstate(invalid="ignore", divide="ignore"):  # Keras also computes NaN from an invalid variance
        scale: _Array = 1.0 / np.sqrt(_array(norm.moving_variance) + norm.epsilon)
    scale = scale * _array(norm.gamma) if norm.scale else scale
    shift = (bias - _array(norm.moving_mean)) * scale
    return scale, shift + (_array(norm.beta) if norm.center else 0.0)


@dataclass(frozen=True)
class Folding:
    """A layer and the normalization after it, for which `is_foldable` is True.

    A normalization on its own is both. Its four weights are stored as a factor and a term for each channel.
    """

    layer: Any
    norm: Any

    @property
    def bias_owner(self) -> Any:
        """The variable under whose name the combined bias is stored."""
        if (bias := getattr(self.layer, "bias", None)) is not None:
            return bias
        return self.norm.beta if self.norm.center else self.norm.moving_mean

    @property
    def gone(self) -> set[str]:
        """The paths of the variables that the file does not store under their own names."""
        return {v.path for v in self.norm.variables} - {kernel_of(self.layer).path, self.bias_owner.path}

    @property
    def own_bias(self) -> Any:
        """The layer's own bias; 0 if the layer has no bias."""
        bias = getattr(self.layer, "bias", None)
        return 0.0 if bias is None else _array(bias)

    def kernel(self) -> npt.NDArray[np.float32]:
        """Returns the combined kernel in Keras' layout. It is computed in float64 and rounded once."""
        import keras

        layers, own = keras.layers, affine_map(self.norm)[0]
        if self.layer is self.norm:
            return own.astype(np.float32)
        kernel = _array(kernel_of(self.layer))  # the output channels are the last axis
        if isinstance(self.layer, layers.DepthwiseConv1D | layers.DepthwiseConv2D):
            own = own.reshape(kernel.shape[-2:])
        elif isinstance(self.layer, layers.Conv1DTranspose | layers.Conv2DTranspose | layers.Conv3DTranspose):
            own = own[:, np.newaxis]
        folded: npt.NDArray[np.float32] = (kernel * own).astype(np.float32)
        return folded

    def bias(self) -> npt.NDArray[np.float32]:
        """Returns the combined bias of each channel. It is computed in float64 and rounded once."""
        return affine_map(self.norm, self.own_bias)[1].astype(np.float32)


@dataclass(frozen=True)
class ComputedWeight:
    """A weight that is computed from other weights when it is read. It has the attributes of a TensorFlow tensor."""

    shape: tuple[int, ...]
    numpy: Callable[[], npt.NDArray[Any]]
    dtype: type = np.float32


def foldings_to_json(foldings: Mapping[str, str]) -> str:
    """Returns the metadata of foldings. Equal foldings have equal texts."""
    return json.dumps(foldings, sort_keys=True)


def foldings_from_json(text: str) -> dict[str, str]:
    """Returns the foldings from `foldings_to_json`; an empty dict for a text of another program."""
    with contextlib.suppress(ValueError):
        return read_record(text, lambda content: {str(layer): str(norm) for layer, norm in content.items()}, "foldings")
    return {}


def _array(variable: Any) -> _Array:
    import keras

    array: _Array = keras.ops.convert_to_numpy(variable.value).astype(np.float64)
    return array


def packed_cell(cell: Any) -> Mapping[str, npt.NDArray[Any]]:
    """Returns the inputs W, R and B of the ONNX operator of a cell, by the names of the cell's weights.

    The names are "kernel", "recurrent_kernel" and "bias". B is zero if the cell has no bias.

    Args:
        cell: A cell whose class is in `RECURRENT_OPERATORS`.
    """
    units, gates = cell.units, _GATES[RECURRENT_OPERATORS[type(cell).__name__]]

    def rows(columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([columns[:, gate * units : (gate + 1) * units].T for gate in gates])

    kernel, recurrent = np.asarray(cell.kernel), np.asarray(cell.recurrent_kernel)
    biases = np.zeros((2, kernel.shape[1]), kernel.dtype)  # a row for the inputs, and a row for the state
    if cell.bias is not None:
        bias = np.atleast_2d(np.asarray(cell.bias))
        biases[: len(bias)] = bias
    bias_rows = rows(biases).T.reshape(1, -1)
    return {"kernel": rows(kernel)[None], "recurrent_kernel": rows(recurrent)[None], "bias": bias_rows}
