"""A model whose state is among its inputs and outputs: every variable that a call assigns becomes an argument."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State, initial_value, state_output
from keras_pe.export.model.decoder import Decoder
from keras_pe.export.model.independent_rows import has_independent_rows
from keras_pe.export.model.random_draws import draws_as_arithmetic
from keras_pe.export.model.sizes.dimensions import Kind
from keras_pe.export.model.watch.keras_internals import (
    all_layers,
    compute_output_spec,
    seed_generators,
    with_free_batch,
)
from keras_pe.export.model.watch.nested_arguments import LeafPath, leaves, sanitize, unique, with_leaves
from keras_pe.export.model.watch.recording import exchanged_state, state_left_alone
from keras_pe.export.model.watch.symbolic_trace import operators_before
from keras_pe.export.results import Array


@keras.saving.register_keras_serializable("keras_pe")
class Stateless(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Calls a model with given values of its variables, and returns the values that the call assigns.

    Args:
        model: A built model.
        numbers: The index of each variable that is an argument, see `_variables`.
        names: The name of each variable as an input of an artifact.
        free: Whether the first axis of each variable is the batch, and may have any size.
        initial: The value of each variable before the first call, see `State`.
    """

    def __init__(
        self,
        model: Any,
        numbers: Sequence[int],
        names: Sequence[str],
        free: Sequence[bool],
        initial: Sequence[Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.model, self._numbers = model, [*numbers]
        self._names, self._free, self._initial = [*names], [*free], [*initial]
        self.built = True

    def call(self, states: Any, arguments: Any) -> Any:
        """Returns the model's results, and the values of the variables after the call.

        Args:
            states: The values of the variables before the call.
            arguments: The positional arguments of the model.
        """
        variables = self._arguments
        free = [variable for variable, is_free in zip(variables, self._free, strict=True) if is_free]
        draws = not _generators(self.model).keys().isdisjoint(map(id, variables))
        with contextlib.ExitStack() as stack:
            if free:
                stack.enter_context(with_free_batch(free, all_layers(self.model)))
            if draws:
                stack.enter_context(draws_as_arithmetic())
            mapping = zip(variables, states, strict=True)
            with exchanged_state(mapping) as scope:
                results = self.model(*arguments)
                return results, [scope.get_current_value(variable) for variable in variables]

    @property
    def _arguments(self) -> list[Any]:
        variables = _variables(self.model)
        return [variables[number] for number in self._numbers]

    @property
    def has_free_batch(self) -> bool:
        """Whether the batch may have any size, although the model fixes it."""
        return any(self._free)

    @property
    def exchanged(self) -> tuple[State, ...]:
        """The inputs and outputs of the state, in the order of the call."""
        variables = self._arguments
        pairs = [(tuple(v.shape), is_free) for v, is_free in zip(variables, self._free, strict=True)]
        shapes = [(Kind.BATCH.value, *shape[1:]) if is_free else shape for shape, is_free in pairs]
        dtypes = [str(keras.backend.standardize_dtype(v.dtype)) for v in variables]
        recurrent = [_is_recurrent(v) for v in variables]
        names = self._names
        return tuple(map(State, names, map(state_output, names), shapes, dtypes, self._initial, recurrent))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        model = keras.saving.serialize_keras_object(self.model)
        own = {"numbers": self._numbers, "names": self._names, "free": self._free, "initial": self._initial}
        return {"name": self.name, "model": model, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Mapping[str, Any] | None = None) -> "Stateless":
        """Returns the model of a configuration."""
        model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
        return cls(**{**config, "model": model})


def with_state_as_arguments(
    model: Any, arguments: Any, taken: Iterable[str], has_state: bool = True, has_seed: bool = False
) -> Stateless:
    """Returns a model with its state as arguments. The batch becomes free if rows then do not depend on each other.

    Args:
        model: A built model.
        arguments: The positional arguments of a call, with a `keras.KerasTensor` at each leaf.
        taken: The names of the other inputs.
        has_state: Whether variables of layers become arguments.
        has_seed: Whether the states of generators of random numbers become arguments.

    Raises:
        ValueError: If a call assigns no such variable, or if the backend is not TensorFlow with `has_seed`.
    """
    if has_seed and keras.backend.backend() != "tensorflow":
        raise ArgValueError(
            "seed",
            "must be left out on another backend than TensorFlow, whose generator a file repeats. "
            f"Received: seed='argument' with KERAS_BACKEND={keras.backend.backend()}.",
        )
    fixed_batch = next((int(state.shape[0]) for *_, state in _recurrent_states(model)), None)
    specs = [_with_batch(spec, fixed_batch) for _, spec in leaves(arguments)]
    arguments = with_leaves(arguments, specs)
    assigned, generators = _assigned_variables(model, arguments, specs), _generators(model)
    seeds, states = ([each for each in assigned if (id(each) in generators) is wanted] for wanted in (True, False))
    if has_state and not states:
        raise ArgValueError(
            "state",
            f"must be left out for a model that keeps no state. Received: {model.name!r}, whose calls assign "
            "no variable.",
        )
    if has_seed and not seeds:
        raise ArgValueError(
            "seed",
            "must be left out for a model without a keras.random.SeedGenerator in a layer. "
            f"Received: {model.name!r}, whose calls draw from no such generator.",
        )
    variables = [*(states if has_state else []), *(seeds if has_seed else [])]
    places = {id(variable): place for place, variable in enumerate(_variables(model))}
    numbers = [places[id(variable)] for variable in variables]
    batches = {spec.shape[0] if spec.shape else None for spec in specs}
    batch = batches.pop() if len(batches) == 1 else None
    initial = [keras.ops.convert_to_numpy(variable.value) for variable in variables]
    for rank in (1, 2):  # an axis of size 1 need not be the batch: a counter may have the shape (1,)
        free = [
            id(variable) not in generators and value.ndim >= rank and value.shape[0] == (batch or 1)
            for variable, value in zip(variables, initial, strict=True)
        ]
        if any(free) and has_independent_rows(
            Stateless(model, numbers, [], free, [], name=model.name), arguments, specs, free, initial
        ):
            break
    else:
        free = [False] * len(variables)
    starts = [initial_value(value, is_free) for value, is_free in zip(initial, free, strict=True)]
    names = unique(map(partial(_name, model), variables), taken)
    return Stateless(model, numbers, names, free, starts, name=model.name)


def exchanged_states(layers: Iterable[Any], inputs: Iterable[TensorInfo]) -> tuple[State, ...]:
    """Returns the states that a model with these layers takes and returns; empty for a model without `state`.

    Args:
        layers: The model, then every layer in it.
        inputs: The inputs of the model, which have the sizes of the states.
    """
    shapes = {spec.name: spec.shape for spec in inputs}
    states = [state for layer in layers if isinstance(layer, Stateless | Decoder) for state in layer.exchanged]
    return tuple(
        replace(state, shape=tuple(map(_start_size, state.shape, shapes[state.input])))
        for state in states
        if state.input in shapes
    )


def _start_size(own: int | str, size: int | str) -> int | str:
    """Returns the size of a state before the first call, for the size of its input: a cache begins without rows."""
    return 0 if own == 0 else size


def with_first_states(model: Any, example: Mapping[str, Array]) -> dict[str, Array]:
    """Returns an example of the inputs with the states before the first call, unless the example has them.

    Args:
        model: A model around a `Stateless`.
        example: The arrays of some inputs, by name.
    """
    batch = next((len(array) for array in map(np.asarray, example.values()) if array.ndim), 1)
    states = [state for layer in all_layers(model) if isinstance(layer, Stateless) for state in layer.exchanged]
    return {**{state.input: state.start(batch) for state in states}, **example}


def _variables(model: Any) -> list[Any]:
    """Returns the variables of a model, also the states of recurrent layers, which Keras does not list."""
    states = (state for *_, state in _recurrent_states(model))
    return list({id(variable): variable for variable in (*model.variables, *states)}.values())


def _generators(model: Any) -> dict[int, Any]:
    """Returns the layer of each generator of random numbers, by the identity of the generator's state."""
    return {id(each.state): layer for layer in all_layers(model) for each in seed_generators(layer)}


def _recurrent_states(model: Any) -> list[tuple[Any, LeafPath, Any]]:
    """Returns the states that recurrent layers keep: the layer, the indices in its `states`, and the variable."""
    recurrent = (layer for layer in all_layers(model) if getattr(layer, "stateful", False))
    # Bidirectional has a property `states` with the states of both of its layers.
    states = ((layer, *found) for layer in recurrent for found in leaves(vars(layer).get("states")))
    return [each for each in states if isinstance(each[-1], keras.Variable)]


def _with_batch(spec: Any, batch: int | None) -> Any:
    """Returns an input with a batch in place of a free one, which Keras refuses beside states of a fixed batch."""
    is_free = batch is not None and len(spec.shape) > 0 and spec.shape[0] is None
    return keras.KerasTensor((batch, *spec.shape[1:]), spec.dtype) if is_free else spec


def _assigned_variables(model: Any, arguments: Any, specs: Sequence[Any]) -> list[Any]:
    """Returns the variables with assigned values that depend on inputs or on variables."""
    found: dict[int, Any] = {}

    def call(tensors: Sequence[Any]) -> Any:
        with state_left_alone() as scope:
            results = model(*with_leaves(arguments, tensors))
            found.update((key, scope.get_current_value(each)) for key, each in scope.assigned.items())
        return results

    compute_output_spec(call, list(specs))
    variables = {id(variable): variable for variable in _variables(model)}
    return [variables[key] for key, value in found.items() if key in variables and _varies(value)]


def _varies(value: Any) -> bool:
    """Returns whether a value depends on an argument or a variable. On other backends than TensorFlow, it may."""
    if keras.backend.backend() != "tensorflow" or not hasattr(value, "op"):
        return True
    return any(operator.type == "Placeholder" for operator in operators_before([value]))


def _name(model: Any, variable: Any) -> str:
    """Returns the name of a variable as an input: its path, or for a recurrent layer the layer's path and the role."""
    path = variable.path.removeprefix(f"{model.name}/")
    if (owner := _generators(model).get(id(variable))) is not None:
        return sanitize(f"{owner.name}_seed")
    if not _is_recurrent(variable):
        return sanitize(path)
    layer, keys = next((layer, keys) for layer, keys, state in _recurrent_states(model) if state is variable)
    is_stacked = hasattr(layer.cell, "cells")
    number = int([*keys[1:], 0][0] if is_stacked else keys[0])
    role = "hc"[number] if number < 2 else str(number)
    return sanitize(path.removesuffix("rnn_state") + f"state_{role}" + (f"_{keys[0]}" if is_stacked else ""))


def _is_recurrent(variable: Any) -> bool:
    """Returns whether a variable is a state of a recurrent layer of Keras."""
    return str(variable.path).endswith("/rnn_state")
