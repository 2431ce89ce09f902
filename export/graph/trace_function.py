"""The trace of a model as one TensorFlow function, with weights as arguments instead of constants.

The graph is small, since it contains no weights: these are copied only when the file is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.graph.trace import (
    convertible_control_flow,
    named_results,
    trace_convertible,
    with_sizes_of_values,
)
from keras_pe.export.model.signature.signature import Signature, input_specs
from keras_pe.export.model.stored_weights import Layout
from keras_pe.export.model.watch.nested_arguments import unique
from keras_pe.export.model.watch.recording import recorded_symbols, state_left_alone


@dataclass(frozen=True)
class Weight:
    """A tensor that is an argument of the function and that the file stores.

    Attributes:
        name: The path of the Keras variable, made unique.
        argument: The name of the TensorFlow tensor.
        value: The Keras variable or eager tensor.
        layout: The layout of the weight in the file; None if it equals Keras' layout.
    """

    name: str
    argument: str
    value: Any
    layout: Layout | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight in the file."""
        return self.layout.shapes[-1] if self.layout else tuple(int(size) for size in self.value.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the weight in the file."""
        import ml_dtypes  # noqa: F401  # registers bfloat16, float8_e4m3fn, ... with NumPy

        if self.layout and self.layout.is_unsigned:
            return np.dtype(np.uint8)
        dtype = self.value.dtype
        known: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
        return known

    @property
    def nbytes(self) -> int:
        """The size of the weight in bytes, computed without reading the weight."""
        return int(np.prod(self.value.shape, dtype=np.int64)) * self.dtype.itemsize

    def read(self) -> npt.NDArray[Any]:
        """Returns the array that the file stores. The array shares memory with TensorFlow's tensor if possible."""
        value = getattr(self.value, "value", self.value)
        tensor = value.read_value() if hasattr(value, "read_value") else value
        try:
            array = np.asarray(memoryview(tensor))
        except (TypeError, ValueError, BufferError):  # the buffer protocol does not support bfloat16 and float8
            array = np.ascontiguousarray(tensor.numpy())
        return self.layout.store(array) if self.layout else array


_UNNAMED = ("IdentityN", "EnsureShape")  # these pass tensors on, and the converter drops their names


@dataclass(frozen=True)
class Trace:
    """A traced model.

    Attributes:
        signature: The signature of the model, see `with_sizes_of_values`.
        function: TensorFlow's concrete function.
        inputs: The names of the TensorFlow tensors of the inputs, in the order of the signature.
        outputs: The names of the TensorFlow tensors of the outputs, in the order of the signature.
        weights: The other arguments of the function.
        updated: The paths of the variables that a call changes and an output depends on, see `_is_constant`.
        view: The graph of the function.
        layers: The names of the TensorFlow tensors that each layer returns, by the path of the layer. A name is empty
            if the layer is called within a loop.
        returned: The name of the output that passes a tensor on unchanged, by the name of the tensor.
    """

    signature: Signature
    function: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[Weight, ...]
    updated: tuple[str, ...]
    view: GraphView
    layers: Mapping[str, tuple[str, ...]]
    returned: Mapping[str, str]


def trace(layers: Sequence[Any], signature: Signature) -> Trace:
    """Traces the model once, in inference mode and for all sizes of the dynamic dimensions.

    Some weights stay constants, see `_constants`. An eager tensor that a layer stores is a capture of the function, and
    becomes a weight.

    Args:
        layers: The model, then every layer in it.
        signature: The model's signature.
    """
    import tensorflow as tf

    model = layers[0]
    constants = _constants(layers)
    variables = list({id(v): v for v in model.variables if id(v) not in constants}.values())
    count = len(signature.inputs)
    assigned: list[tuple[Any, Any]] = []

    def flat(*arguments: Any) -> list[Any]:
        mapping = list(zip(variables, arguments[count:], strict=True))
        mapping += [(v, tf.constant(value)) for v, value in constants.values()]
        with state_left_alone(mapping) as scope:
            results = named_results(model, signature, arguments[:count])
            assigned.extend((v, scope.get_current_value(v)) for v in scope.assigned.values())
        return list(results.values())

    specs = input_specs(signature)
    names = unique((f"weight_{i}" for i in range(len(variables))), taken=[spec.name for spec in specs])
    specs += [tf.TensorSpec(v.shape, v.dtype, name) for name, v in zip(names, variables, strict=True)]

    def trace_once() -> tuple[Any, dict[str, list[Any]]]:
        assigned.clear()
        with recorded_symbols(model) as symbols:
            return tf.function(flat, input_signature=specs, autograph=False).get_concrete_function(), symbols

    function, symbols = trace_convertible(layers, trace_once, convertible_control_flow)
    view = GraphView(function.graph, layers)
    inputs, arguments = function.inputs[:count], _arguments(function, variables, count)
    read = [(v, value) for v, value in assigned if _is_read(v, arguments, view)]
    returned = dict(zip((spec.name for spec in signature.outputs), function.outputs, strict=True))
    return Trace(
        with_sizes_of_values(signature, returned),
        function,
        tuple(x.name for x in inputs),
        tuple(x.name for x in function.outputs),
        _weights(function, variables, arguments),
        () if _is_constant(model, signature, read, inputs, view) else tuple(v.path for v, _ in read),
        view,
        {path: tuple(_name_in(function.graph, x) for x in returned) for path, returned in symbols.items()},
        {x.name: output.name for output in function.outputs for x in _before_identities(output)},
    )


def _arguments(function: Any, variables: Sequence[Any], count: int) -> dict[int, Any]:
    """Returns the graph's tensor for each variable and each captured value, by the `id` of the variable or value.

    Args:
        function: The concrete function, which takes the inputs, then the variables.
        variables: The variables.
        count: The number of inputs.
    """
    arguments = {id(v): x for v, x in zip(variables, function.inputs[count:], strict=False)}
    return arguments | {
        id(value): inner for value, inner in function.graph.captures
    }  # a variable is captured as its handle


def _weights(function: Any, variables: Sequence[Any], arguments: Mapping[int, Any]) -> tuple[Weight, ...]:
    import tensorflow as tf

    captured = [  # the converter freezes resources, and a value that TensorFlow has inlined is not an argument
        (inner.op.name, value)
        for value, inner in function.graph.captures
        if inner.dtype != tf.resource and inner.op.type == "Placeholder"
    ]
    named = [*((v.path, v) for v in variables), *captured]
    names = unique([name for name, _ in named])
    return tuple(Weight(name, arguments[id(value)].name, value) for name, (_, value) in zip(names, named, strict=True))


def _name_in(graph: Any, tensor: Any) -> str:
    """Returns the name of a tensor in the graph, or of the tensor that it passes on if the converter drops the name."""
    if getattr(tensor, "graph", None) is not graph:
        return ""
    return next((x.name for x in (tensor, *_before_identities(tensor)) if x.op.type not in _UNNAMED), "")


def _before_identities(tensor: Any) -> Iterator[Any]:
    """Yields the earlier tensors that identities pass on as this tensor."""
    while tensor.op.type == "Identity" or tensor.op.type in _UNNAMED:
        tensor = tensor.op.inputs[tensor.value_index]
        yield tensor


def _is_read(variable: Any, argument_of: Mapping[int, Any], view: GraphView) -> bool:
    """Returns whether an output depends on the value that a variable had before the call."""
    keys = (id(variable), id(getattr(variable.value, "handle", None)))
    arguments = [argument_of[key].op.name for key in keys if key in argument_of]
    return not arguments or not view.needed.isdisjoint(arguments)  # without arguments, the variable is a constant


def _constants(layers: Sequence[Any]) -> dict[int, tuple[Any, npt.NDArray[Any]]]:
    """Returns the variables whose values the conversion needs, with their values, by the `id` of the variable.

    The conversion moves the transpositions of convolutions past biases and the statistics of normalizations, and folds
    these statistics. Both work only if the biases and statistics are constants.
    """
    if not any(isinstance(layer, _convolutions()) for layer in layers):
        return {}
    return {id(v): (v, np.asarray(v.value)) for v in layers[0].weights if len(v.shape) == 1}


def _convolutions() -> tuple[type, ...]:
    import keras

    kinds = ("Conv{}D", "Conv{}DTranspose", "DepthwiseConv{}D", "SeparableConv{}D")
    names = [kind.format(axes) for kind in kinds for axes in (1, 2, 3)]
    return tuple(getattr(keras.layers, name) for name in names if hasattr(keras.layers, name))


def _is_constant(
    model: Any, signature: Signature, read: Sequence[tuple[Any, Any]], inputs: Sequence[Any], view: GraphView
) -> bool:
    """Returns whether all calls of a model with equal inputs return equal outputs, although it assigns to variables.

    The assigned values must not depend on the inputs. Two calls then suffice: if both assign and return equal values,
    all later calls do too.

    Args:
        model: The Keras model.
        signature: The model's signature.
        read: The variables that calls assign to and outputs depend on, with the new values in the graph.
        inputs: The inputs in the graph.
        view: The graph.
    """
    if not read or view.depends([value for _, value in read], inputs):
        return not read
    arrays = signature.varied_example()
    calls = []
    with state_left_alone() as scope:
        for _ in range(2):
            returned = list(signature.call(model, arrays).values())
            calls.append([*returned, *(scope.get_current_value(variable) for variable, _ in read)])
    return all(np.array_equal(first, second, equal_nan=True) for first, second in zip(*calls, strict=True))
