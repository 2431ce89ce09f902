"""A call of a layer that an artifact gets wrong, and the call made again with one thing about it changed."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keras_pe.export.comparison.law import STRICT, is_float
from keras_pe.export.model.watch.keras_internals import replaced_attributes
from keras_pe.export.model.watch.recording import LayerCall, state_left_alone
from keras_pe.export.parity.diagnosis.recorded_outputs import RecordedOutput
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch, Tensors
from keras_pe.export.results import Array

_MOST_BEFORE = 8
_SLACK = 4.0  # for values of which no noise is known


@dataclass(frozen=True)
class LayerFault:
    """One call of a layer whose output the artifact gets wrong although what it is given is right.

    Attributes:
        call: What Keras gave the layer, and what it returned.
        index: Which of its outputs is wrong.
        tolerance: What is allowed.
        location: The artifact's tensor that holds it, and how; None where none was found.
        actual: What that tensor held, in the shape of Keras' output; None where it has no such values.
        folded: The same of the normalization that an exporter has folded into the layer's weights: the tensor holds its
            output, and the layer's own is nowhere.
        held_in: The tensor that is named for the output, where that is of another size, and
        held: what it holds.
        loose: What the layer was given that the code of the layer around it has computed.
        before: What was there before of a shape that it is given, with the layer or input that it came from.
        reordered: What it was given, by its number, as tensors of the artifact hold it in another order.
        unsure: Layers that it was given from, whose outputs the exporter has named no tensor for: one that holds the
            same may stand beside the way. They may be at fault in its place.
        through: The layer in whose output it shows: for one of these, or where no tensor can be its own.
        absent: The layers before it of which the artifact has nothing: what explains this one may explain that.
        sound_weights: The paths of the weights that the artifact is known to hold as the model does.
        sizes: The dynamic dimensions of the case, by name.
        calls: The paths of all calls of the layer, in their order.
    """

    call: LayerCall
    index: int
    tolerance: float
    location: TensorMatch | None = None
    actual: Array | None = None
    folded: "LayerFault | None" = None
    held_in: str | None = None
    held: Array | None = None
    loose: tuple[Array, ...] = ()
    before: tuple[tuple[str, Array], ...] = ()
    reordered: tuple[tuple[int, Array], ...] = ()
    unsure: "tuple[LayerFault, ...]" = ()
    through: "LayerFault | None" = None
    absent: tuple[str, ...] = ()
    sound_weights: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    calls: tuple[str, ...] = ()

    @property
    def expected(self) -> Array:
        """What Keras returned."""
        return self.call.outputs[self.index]

    @property
    def layer(self) -> str:
        """The layer's path, without the number of the call."""
        return self.call.path.partition("#")[0]

    @property
    def layers(self) -> set[str]:
        """The path of the layer, and that of the normalization in its weights."""
        return {self.layer} | (self.folded.layers if self.folded is not None else set())

    @property
    def tensor(self) -> str | None:
        """The name of the artifact's tensor."""
        return None if self.location is None else self.location.tensor


def with_surroundings(
    fault: LayerFault,
    output: RecordedOutput,
    outputs: Sequence[RecordedOutput],
    inputs: Mapping[str, Array],
    tensors: Tensors,
) -> LayerFault:
    """Returns a fault with what the layer may have been given in the place of its inputs."""
    given = [(number, array) for number, array in enumerate(output.call.inputs) if _is_number(array)]
    shapes = {array.shape for _, array in given}
    nearest_first = [(each.call.path, each.array) for each in reversed(outputs[: output.number])]
    known = [*nearest_first, *(pair for pair in inputs.items() if _is_number(pair[1]))]
    before = (pair for pair in known if {pair[1].shape, (*pair[1].shape[:1], *pair[1].shape[2:])} & shapes)
    reordered = (
        (number, other)
        for number, array in given
        if is_float(array.dtype) and array.size > 1
        for other in tensors.reordered(array, _SLACK * STRICT.flat_tolerance(array))
    )
    return replace(
        fault,
        loose=output.loose_inputs,
        before=tuple(before)[:_MOST_BEFORE],
        reordered=tuple(reordered)[:_MOST_BEFORE],
    )


def _is_number(array: Array) -> bool:
    return is_float(array.dtype) or array.dtype.kind in "iu"


_STEPS = 2  # of a recurrence: what it keeps from one to the next shows in the second


def with_attributes(fault: LayerFault, change: dict[str, Any], kind: Any = None) -> Array:
    """Returns what the layer gives with other attributes and the same weights, as a layer of another class if asked."""
    layer = fault.call.layer
    config = {name: "zeros" if name.endswith("_initializer") else v for name, v in _config(layer).items()}
    if kind is not None:
        config = {name: value for name, value in config.items() if name in inspect.signature(kind).parameters}
    again = (kind or type(layer)).from_config({**config, **change, "name": layer.name})
    if layer.built and not again.built:
        again.build_from_config(layer.get_build_config() or {})
    weights = layer.get_weights()
    if "use_bias" in change or "center" in change or "scale" in change:
        by_name = {v.path.rpartition("/")[2]: w for v, w in zip(layer.weights, weights, strict=True)}
        for variable in again.weights:
            variable.assign(by_name.get(variable.path.rpartition("/")[2], 0.0 * variable))
    else:
        again.set_weights([_in_shape(w, v.shape) for w, v in zip(weights, again.weights, strict=True)])
    return call(again, given(fault), fault)


def _in_shape(weight: Array, shape: tuple[int, ...]) -> Array:
    """Returns a weight in another shape: of two biases that are added their sum, of one that and zeros."""
    if weight.shape == (2, *shape):
        summed: Array = weight[0] + weight[1]
        return summed
    return np.stack([weight, np.zeros_like(weight)]) if (2, *weight.shape) == shape else weight


def _config(layer: Any) -> dict[str, Any]:
    """Returns a layer's configuration, with the functions themselves: not each can be made from its description."""
    import keras

    own = {name: getattr(layer, name, None) for name in layer.get_config()}
    functions = {name: v for name, v in own.items() if callable(v) and not isinstance(v, keras.Layer | type)}
    return {**layer.get_config(), **functions}


def with_numbers(fault: LayerFault, numbers: Mapping[str, float]) -> Array:
    """Returns what the layer gives with other numbers, of its configuration or, of one name, that it keeps for itself.

    Those that it keeps for itself begin with an underscore.
    """
    private = {n: v for n, v in numbers.items() if n.startswith("_")}
    public = {n: v for n, v in numbers.items() if n not in private}
    with replaced_attributes(fault.call.layer, private):
        return with_attributes(fault, public) if public else call(fault.call.layer, given(fault), fault)


def with_weights(fault: LayerFault, values: Iterable[tuple[Any, Array]]) -> Array:
    """Returns what the layer gives with other values of some of its weights."""
    others = [(variable, as_tensor(array.astype(variable.dtype))) for variable, array in values]
    with state_left_alone(others):
        return call(fault.call.layer, given(fault), fault)


def with_inputs(fault: LayerFault, pairs: Iterable[tuple[Array, Array]]) -> Array:
    """Returns what the layer gives with other arrays in the places of some that it was given."""
    import keras

    def put(leaf: Any) -> Any:
        if not keras.ops.is_tensor(leaf):
            return leaf
        array = as_array(leaf)
        fitting = (new for old, new in pairs if old.dtype == array.dtype and np.array_equal(array, old))
        new = next(fitting, None)
        return leaf if new is None else as_tensor(new.astype(array.dtype))

    return call(fault.call.layer, keras.tree.map_structure(put, given(fault)), fault)


def shown(fault: LayerFault, result: Array | None) -> Array | None:
    """Returns what the layer in which a fault shows makes of a result."""
    if fault.through is None or result is None:
        return result
    return with_inputs(fault.through, [(fault.expected, result)])


def first_steps(fault: LayerFault) -> LayerFault | None:
    """Returns the same of a recurrent layer's first steps, which know nothing of those after them; None of another.

    A recurrence takes its time for each step: what does not even begin as the artifact does need not go on.
    """
    import keras

    layer, inputs = fault.call.layer, fault.call.arguments
    is_forward = isinstance(layer, keras.layers.RNN) and layer.return_sequences and not layer.go_backwards
    if not is_forward or fault.actual is None or fault.through is not None or not inputs:
        return None
    if given(fault).get("mask") is not None or fault.index > 0 or fault.actual.shape[1] <= _STEPS:
        return None
    outputs = (fault.expected[:, :_STEPS],)
    begun = replace(fault.call, arguments=(inputs[0][:, :_STEPS], *inputs[1:]), outputs=outputs)
    return replace(fault, call=begun, actual=fault.actual[:, :_STEPS])


def given(fault: LayerFault) -> dict[str, Any]:
    """Returns the arguments of the recorded call by name."""
    signature = inspect.signature(fault.call.layer.call)
    return dict(signature.bind(*fault.call.arguments, **fault.call.keywords).arguments)


def call(layer: Any, arguments: dict[str, Any], fault: LayerFault) -> Array:
    """Calls a layer with arguments by name, and returns the output that is at fault."""
    import keras

    bound = inspect.BoundArguments(inspect.signature(layer.call), arguments)
    result = layer.call(*bound.args, **bound.kwargs)
    tensors = [leaf for leaf in keras.tree.flatten(result) if keras.ops.is_tensor(leaf)]
    return as_array(tensors[fault.index])


def as_array(tensor: Any) -> Array:
    """Returns a tensor of Keras as an array."""
    import keras

    array: Array = keras.ops.convert_to_numpy(tensor)
    return array


def as_tensor(array: Array) -> Any:
    """Returns an array as a tensor of Keras."""
    import keras

    return keras.ops.convert_to_tensor(array)
