"""How a file stores weights where that is not as Keras has them.

An operator may want other axes or unsigned numbers; a normalization is at inference an affine map, which the weights of
the layer before it can hold; and ONNX's LSTM, GRU and RNN take one row a unit, the gates in an order of their own.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LAYOUTS_KEY = "keras_pe.layouts"
"""Where a file says how it stores weights that it does not store as Keras does: JSON, a layout by the weight's name."""

FOLDED_KEY = "keras_pe.folded"
"""Where a file says what it stores as one: JSON, the path of a normalization by that of the layer before it."""

Step = tuple[str, tuple[int, ...]]
"""The name of a function of NumPy's, "reshape" or "transpose", and the shape or the axes that it is given.

"unsigned" and nothing: an int8 as the uint8 that is 128 more.
"""

_SIGN = np.uint8(128)
_Array = npt.NDArray[np.float64]

RECURRENT_OPERATORS = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "RNN"}

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (0, 1, 2), "RNN": (0,)}  # where Keras has ONNX's first, second, ...


@dataclass(frozen=True)
class Layout:
    """What is done to a Keras weight before it is stored.

    Attributes:
        keras: The shape of the Keras variable.
        steps: In the order in which they are done.
    """

    keras: tuple[int, ...]
    steps: tuple[Step, ...] = ()

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes before the first step, between two, and after the last."""
        return list(itertools.accumulate(self.steps, _shape_after, initial=self.keras))

    @property
    def is_unsigned(self) -> bool:
        """Whether the weight is an int8 that the file stores as uint8."""
        return any(function == "unsigned" for function, _ in self.steps)

    def then(self, function: str, argument: Sequence[int]) -> "Layout":
        """Returns the layout with one step more."""
        return Layout(self.keras, (*self.steps, (function, tuple(int(number) for number in argument))))

    def store(self, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns a Keras weight as the file stores it."""
        for function, argument in self.steps:
            weight = (
                weight.view(np.uint8) ^ _SIGN if function == "unsigned" else getattr(np, function)(weight, argument)
            )
        return np.ascontiguousarray(weight)

    def restore(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns what a file stores as Keras has it, without a copy where that can be.

        Raises:
            ValueError: If it has another size than the weight.
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
    """Returns the metadata of a file, the same for equal layouts."""
    values = {name: {"keras": layout.keras, "steps": layout.steps} for name, layout in layouts.items()}
    return json.dumps(values, sort_keys=True)


def layouts_from_json(text: str) -> dict[str, Layout]:
    """Reads what `layouts_to_json` returned; nothing where another program wrote something else under its key."""
    try:
        return {
            name: Layout(
                tuple(value["keras"]), tuple((str(function), tuple(argument)) for function, argument in value["steps"])
            )
            for name, value in json.loads(text).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _shape_after(shape: tuple[int, ...], step: Step) -> tuple[int, ...]:
    function, argument = step
    if function == "unsigned":
        return shape
    return tuple(shape[axis] for axis in argument) if function == "transpose" else argument


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
    """Returns the variable under whose name the factors of a normalization are stored: of a linear layer the kernel
    that it applies last, and of the normalization itself its own."""
    import keras

    if isinstance(layer, keras.layers.BatchNormalization):
        return layer.gamma if layer.scale else layer.moving_variance
    return layer.pointwise_kernel if hasattr(layer, "pointwise_kernel") else layer.kernel


def is_foldable(layer: Any, after: Any) -> bool:
    """Whether exporters fold the second layer into the weights of the first, which may be the same layer."""
    import keras

    return isinstance(after, keras.layers.BatchNormalization) and (layer is after or is_linear(layer))


def affine_map(norm: Any, bias: Any = 0.0) -> tuple[_Array, _Array]:
    """Returns what a normalization multiplies each channel by, and then adds to it, where the input lacks a bias."""
    with np.errstate(invalid="ignore", divide="ignore"):  # a variance that is none makes NaN in Keras as well
        scale: _Array = 1.0 / np.sqrt(_array(norm.moving_variance) + norm.epsilon)
    scale = scale * _array(norm.gamma) if norm.scale else scale
    shift = (bias - _array(norm.moving_mean)) * scale
    return scale, shift + (_array(norm.beta) if norm.center else 0.0)


@dataclass(frozen=True)
class Folding:
    """A layer, and the normalization after it: those of `is_foldable`. One that stands by itself is both: its four
    weights are stored as a factor and a term for each channel."""

    layer: Any
    norm: Any

    @property
    def bias_owner(self) -> Any:
        """The variable under whose name the bias of both is stored."""
        if (bias := getattr(self.layer, "bias", None)) is not None:
            return bias
        return self.norm.beta if self.norm.center else self.norm.moving_mean

    @property
    def gone(self) -> set[str]:
        """The paths of the variables that are stored under no name of their own."""
        return {v.path for v in self.norm.variables} - {kernel_of(self.layer).path, self.bias_owner.path}

    @property
    def own_bias(self) -> Any:
        """What the layer adds itself."""
        bias = getattr(self.layer, "bias", None)
        return 0.0 if bias is None else _array(bias)

    def kernel(self) -> npt.NDArray[np.float32]:
        """Returns the kernel of both, as Keras lays it out, rounded once."""
        import keras

        layers, own = keras.layers, affine_map(self.norm)[0]
        if self.layer is self.norm:
            return own.astype(np.float32)
        kernel = _array(kernel_of(self.layer))  # the channels that leave are last
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


def packed_cell(cell: Any) -> Mapping[str, npt.NDArray[Any]]:
    """Returns the operator's W, R and B of a cell of `RECURRENT_OPERATORS`, by the names of the cell's weights.

    Those are "kernel", "recurrent_kernel" and "bias". A bias that the cell has not is zero.
    """
    units, gates = cell.units, _GATES[RECURRENT_OPERATORS[type(cell).__name__]]

    def rows(columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([columns[:, gate * units : (gate + 1) * units].T for gate in gates])

    kernel, recurrent = np.asarray(cell.kernel), np.asarray(cell.recurrent_kernel)
    biases = np.zeros((2, kernel.shape[1]), kernel.dtype)  # of the inputs, of the state
    if cell.bias is not None:
        bias = np.atleast_2d(np.asarray(cell.bias))
        biases[: len(bias)] = bias
    bias_rows = rows(biases).T.reshape(1, -1)
    return {"kernel": rows(kernel)[None], "recurrent_kernel": rows(recurrent)[None], "bias": bias_rows}
