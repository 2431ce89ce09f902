"""A call of a layer whose output the artifact gets wrong, and the call with one change."""

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from keras_pe.export.graph.tensorflow_internals import fatal_calls_refused
from keras_pe.export.model.watch.keras_internals import loops_as_graphs
from keras_pe.export.model.watch.recording import LayerCall, state_left_alone
from keras_pe.export.model.watch.temporary_patches import replaced_attributes
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch
from keras_pe.export.results import Array


@dataclass(frozen=True)
class Sighting:
    """The tensors of the artifact that show the wrong output of a call.

    Attributes:
        kind: "direct" if a tensor has the output itself, "downstream" if only a later layer's output shows it. "folded"
            if the output of a normalization shows it, which an exporter has folded into the layer's weights.
        location: The artifact's tensor of the output, with its layout; None without one.
        actual: The values of that tensor in the shape of Keras' output; None if it has no such values.
        held_in: The tensor that is named for the output but has another size.
        held: The values of that tensor.
        through: The layer in whose output the fault shows; None if direct.
    """

    kind: Literal["direct", "downstream", "folded"] = "direct"
    location: TensorMatch | None = None
    actual: Array | None = None
    held_in: str | None = None
    held: Array | None = None
    through: "LayerFault | None" = None


@dataclass(frozen=True)
class Surroundings:
    """The context of a call.

    Attributes:
        loose: Inputs of the layer that the code of the enclosing layer has computed.
        before: Earlier arrays with the shape of an input, by their layer or input.
        known_inputs: Returns the numbers of the float inputs whose values a tensor of the artifact has.
        reordered: Returns tensors of the artifact that have an input's values in another order, by their names.
        sources: The layer or input that each input array comes from; empty if unknown.
        made_by: The calls that returned the inputs, by the number of the input.
        calls: The paths of all calls of the layer, in their order.
        within: The code of the enclosing user's layer up to the call, as a call of equal outputs; None without one.
        sizes: The dynamic dimensions of the case, by name.
        sound_weights: The paths of the weights that the artifact is known to store as the model does.
        constants: Returns the artifact's small constants.
    """

    loose: tuple[Array, ...] = ()
    before: Mapping[str, Array] = field(default_factory=dict)
    known_inputs: Callable[[], frozenset[int]] = frozenset
    reordered: Callable[[int], Mapping[str, Array]] = lambda number: {}
    sources: tuple[str, ...] = ()
    made_by: Mapping[int, LayerCall] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    within: LayerCall | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    sound_weights: frozenset[str] = frozenset()
    constants: Callable[[], Sequence[Array]] = tuple


@dataclass(frozen=True)
class LayerFault:
    """One call of a layer whose output the artifact gets wrong although the inputs of the call are right.

    Attributes:
        call: The arguments that Keras passed to the layer, and the outputs.
        index: The number of the wrong output.
        tolerance: The tolerance on the difference.
        sighting: The tensors of the artifact that show the output.
        around: The context of the call.
        unsure: Earlier layers that may be at fault instead. The exporter has named no tensor for their outputs, and a
            tensor with equal values may be off the path of the computation.
        absent: Earlier layers without any tensor in the artifact. The cause of this fault may explain that.
    """

    call: LayerCall
    index: int
    tolerance: float
    sighting: Sighting = Sighting()
    around: Surroundings = Surroundings()
    unsure: "tuple[LayerFault, ...]" = ()
    absent: tuple[str, ...] = ()

    def with_sighting(self, **changes: Any) -> "LayerFault":
        """Returns the fault with changed fields of its sighting: `location`, `actual`, `through`, ..."""
        return replace(self, sighting=replace(self.sighting, **changes))

    def amid(self, **changes: Any) -> "LayerFault":
        """Returns the fault with changed fields of its context: `sizes`, `before`, ..."""
        return replace(self, around=replace(self.around, **changes))

    @property
    def actual(self) -> Array | None:
        """The artifact's values in the shape of Keras' output; None if it has no such values."""
        return self.sighting.actual

    @property
    def location(self) -> TensorMatch | None:
        """The artifact's tensor of the output."""
        return self.sighting.location

    @property
    def through(self) -> "LayerFault | None":
        """The layer in whose output the fault shows; None if the layer's own output shows it."""
        return self.sighting.through

    @property
    def expected(self) -> Array:
        """Keras' output."""
        return self.call.outputs[self.index]

    @property
    def layer(self) -> str:
        """The layer's path, without the number of the call."""
        return self.call.layer_path

    @property
    def folded(self) -> "LayerFault | None":
        """The normalization that is folded into the layer's weights, if the fault shows in it."""
        return self.through if self.sighting.kind == "folded" else None

    @property
    def layers(self) -> set[str]:
        """The paths of the layer and of the normalization in its weights."""
        return {self.layer, *([self.folded.layer] if self.folded is not None else [])}

    @property
    def tensor(self) -> str | None:
        """The name of the artifact's tensor of the output."""
        return None if self.location is None else self.location.tensor


@contextlib.contextmanager
def trial() -> Iterator[None]:
    """A context in which a layer runs with a change: its state stays, and no call ends the process."""
    with state_left_alone(), loops_as_graphs(), fatal_calls_refused(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def with_attributes(fault: LayerFault, change: Mapping[str, Any], kind: Any = None) -> Array:
    """Returns the layer's output with other attributes and equal weights.

    Args:
        fault: The call.
        change: Attributes by name, from the layer's configuration, or private ones that begin with an underscore.
        kind: The class of the layer, if it changes.
    """
    layer = fault.call.layer
    kept = {name: value for name, value in change.items() if name.startswith("_")}
    configured = {name: value for name, value in change.items() if name not in kept}
    with replaced_attributes(layer, kept):
        again = _made_again(layer, configured, kind or type(layer)) if configured or kind else layer
        return call(again, arguments_of(fault), fault)


def _made_again(layer: Any, change: Mapping[str, Any], kind: Any) -> Any:
    if not hasattr(layer, "variables"):  # an operation of a functional model
        again = copy.copy(layer)
        vars(again).update(change)
        return again
    again = made_without_weights(layer, change, kind)
    weights = layer.get_weights()
    if "use_bias" in change or "center" in change or "scale" in change:
        by_name = {v.path.rpartition("/")[2]: w for v, w in zip(layer.weights, weights, strict=True)}
        for variable in again.weights:
            variable.assign(by_name.get(variable.path.rpartition("/")[2], 0.0 * variable))
    else:
        again.set_weights([_in_shape(w, v.shape) for w, v in zip(weights, again.weights, strict=True)])
    return again


def made_without_weights(layer: Any, change: Mapping[str, Any], kind: Any) -> Any:
    """Returns a new layer of a class with the configuration of another layer apart from a change."""
    config = {name: "zeros" if name.endswith("_initializer") else v for name, v in _config(layer).items()}
    if kind is not type(layer):
        config = {name: value for name, value in config.items() if name in inspect.signature(kind).parameters}
    again = kind.from_config({**config, **change, "name": layer.name})
    if layer.built and not again.built:
        again.build_from_config(layer.get_build_config() or {})
    return again


def _in_shape(weight: Array, shape: tuple[int, ...]) -> Array:
    """Returns a weight in another shape: the sum of two biases, or one bias and zeros."""
    if weight.shape == (2, *shape):
        summed: Array = weight[0] + weight[1]
        return summed
    return np.stack([weight, np.zeros_like(weight)]) if (2, *weight.shape) == shape else weight


def _config(layer: Any) -> dict[str, Any]:
    """Returns a layer's configuration with function objects, since not every function has a usable description."""
    import keras

    own = {name: getattr(layer, name, None) for name in layer.get_config()}
    functions = {name: v for name, v in own.items() if callable(v) and not isinstance(v, keras.Layer | type)}
    return {**layer.get_config(), **functions}


def with_weights(fault: LayerFault, values: Iterable[tuple[Any, Array]]) -> Array:
    """Returns the layer's output with other values of some of its weights."""
    others = [(variable, as_tensor(array.astype(variable.dtype))) for variable, array in values]
    with state_left_alone(others):
        return call(fault.call.layer, arguments_of(fault), fault)


def with_inputs(fault: LayerFault, pairs: Iterable[tuple[Array, Array]]) -> Array:
    """Returns the layer's output after replacing some arrays among its arguments."""
    import keras

    def put(leaf: Any) -> Any:
        if not keras.ops.is_tensor(leaf):
            return leaf
        array = as_array(leaf)
        fitting = (new for old, new in pairs if old.dtype == array.dtype and np.array_equal(array, old))
        new = next(fitting, None)
        return leaf if new is None else as_tensor(new.astype(array.dtype))

    return call(fault.call.layer, keras.tree.map_structure(put, arguments_of(fault)), fault)


def shown(fault: LayerFault, result: Array | None) -> Array | None:
    """Returns the effect of a result on the output of the layer in which the fault shows."""
    if fault.through is None or result is None:
        return result
    return with_inputs(fault.through, [(fault.expected, result)])


def arguments_of(fault: LayerFault) -> dict[str, Any]:
    """Returns the arguments of the recorded call by name."""
    signature = inspect.signature(fault.call.layer.call)
    return dict(signature.bind(*fault.call.arguments, **fault.call.keywords).arguments)


def call(layer: Any, arguments: dict[str, Any], fault: LayerFault) -> Array:
    """Calls a layer with arguments by name, and returns the output at fault."""
    import keras

    bound = inspect.BoundArguments(inspect.signature(layer.call), arguments)
    result = layer.call(*bound.args, **bound.kwargs)
    tensors = [leaf for leaf in keras.tree.flatten(result) if keras.ops.is_tensor(leaf)]
    return as_array(tensors[fault.index])


def as_array(tensor: Any) -> Array:
    """Returns a Keras tensor as an array."""
    import keras

    array: Array = keras.ops.convert_to_numpy(tensor)
    return array


def on_arrays(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Returns a function of Keras tensors as a function of arrays."""
    return lambda array: as_array(function(as_tensor(array)))


def as_tensor(array: Array) -> Any:
    """Returns an array as a Keras tensor."""
    import keras

    return keras.ops.convert_to_tensor(array)
