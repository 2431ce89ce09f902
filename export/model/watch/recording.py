"""A model's calls recorded as they are made, layer by layer, and its state left as it was."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.model.watch.replaced import replaced_functions
from keras_pe.export.results import Array


def state_left_alone(mapping: Iterable[tuple[Any, Any]] = ()) -> Any:
    """Returns a context in which every assignment to a variable of Keras is kept aside, and forgotten at its end.

    Calls within one context see what earlier ones assigned: a sequence of calls goes on from call to call as it would
    without the context. Nothing is copied. The value of the context is Keras' scope; its `assigned` holds the variables
    that were assigned, by identity, those among them that the model does not list.

    Args:
        mapping: Variables and the values that they start with, where these are not their own.
    """
    import keras

    class Scope(keras.StatelessScope):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__(state_mapping=list(mapping))
            self.assigned: dict[int, Any] = {}

        def add_update(self, update: tuple[Any, Any]) -> None:
            self.assigned[id(update[0])] = update[0]
            super().add_update(update)

    return Scope()


def exchanged_state(mapping: Iterable[tuple[Any, Any]]) -> Any:
    """Returns a context in which variables have other values, and keep the assignments to themselves.

    All other variables have the values of the context around it. The value of the context is Keras' scope, whose
    `get_current_value` returns what was assigned. A value may have another batch than its variable.

    Args:
        mapping: The variables and their values.
    """
    import keras

    class Scope(keras.StatelessScope):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            # The constructor of Keras would refuse another batch.
            self.state_mapping = {id(v): keras.ops.convert_to_tensor(value, v.dtype) for v, value in mapping}

        def get_current_value(self, variable: Any) -> Any:
            known = super().get_current_value(variable)
            around = self.original_scope
            return around.get_current_value(variable) if known is None and around is not None else known

        def add_update(self, update: tuple[Any, Any]) -> None:
            if id(update[0]) in self.state_mapping or self.original_scope is None:
                super().add_update(update)
            else:
                self.original_scope.add_update(update)

    return Scope()


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer or of an operation.

    Attributes:
        path: The names that lead to the layer, joined by "/"; from its second call on with its number, as in "dense#2".
        layer: The layer or operation.
        arguments: What it was given, as the layer's `call` saw it, masks among the keywords.
        keywords: What it was given by name.
        inputs: The arrays among both, in order.
        outputs: The arrays that it returned, in order.
        depth: How many recorded calls it was made within.
    """

    path: str
    layer: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    depth: int


def record_calls(model: Any, run: Callable[[], Any]) -> list[LayerCall]:
    """Returns the calls that a model made of its layers, in the order in which they returned: inner ones come first.

    Neither the steps of a recurrent layer nor what is computed on symbols (in a loop that is compiled) is recorded.

    Args:
        model: A built `keras.Model`. The calls of its own layers are watched, of no others.
        run: Calls the model, eagerly.
    """
    calls: list[LayerCall] = []
    names = _Numbered()

    def keep(path: str, call: _Seen) -> Any:
        given, returned = arrays_in((call.arguments, call.keywords)), arrays_in(call.result)
        if given is not None and returned:
            name = names.give(path)
            calls.append(LayerCall(name, call.layer, call.arguments, call.keywords, given, returned, call.depth))
        return call.result

    with _watched(model, keep):
        run()
    return calls


def replaced_output(model: Any, path: str, index: int, array: Array) -> contextlib.AbstractContextManager[None]:
    """Lets one call of a layer in a model return another array, while this thread calls the model once.

    Args:
        model: The model.
        path: The path of the call, as in `LayerCall`.
        index: Which of its outputs is another one.
        array: What it is, of the shape and dtype that it has.
    """
    import keras

    names = _Numbered()

    def put(own: str, call: _Seen) -> Any:
        if own != path.partition("#")[0] or arrays_in((call.arguments, call.keywords)) is None:
            return call.result
        if names.give(own) != path:
            return call.result
        leaves = keras.tree.flatten(call.result)
        tensors = [number for number, leaf in enumerate(leaves) if keras.ops.is_tensor(leaf)]
        leaves[tensors[index]] = keras.ops.convert_to_tensor(array)
        return keras.tree.pack_sequence_as(call.result, leaves)

    return _watched(model, put)


def scaled_outputs(model: Any, factor: float) -> contextlib.AbstractContextManager[None]:
    """Lets every layer of a model return its floats times a factor, while this thread calls the model.

    Whole numbers stay as they are: rounding does not reach them, and a step such as `floor` starts at them.

    Args:
        model: The model.
        factor: A number close to 1.
    """
    import keras

    def scaled(leaf: Any) -> Any:
        if not keras.ops.is_tensor(leaf) or not keras.backend.is_float_dtype(
            keras.backend.standardize_dtype(leaf.dtype)
        ):
            return leaf
        return keras.ops.where(leaf == keras.ops.round(leaf), leaf, leaf * keras.ops.cast(factor, leaf.dtype))

    return _watched(model, lambda _, call: keras.tree.map_structure(scaled, call.result))


def altered_outputs(model: Any, change: Callable[[Array], Array]) -> contextlib.AbstractContextManager[None]:
    """Passes every array of floats that a layer or operation of a model returns through a function, in this thread.

    The steps of a recurrent layer are left as they are.

    Args:
        model: The model.
        change: Returns another array of the same shape.
    """
    import keras

    def put(_: str, call: _Seen) -> Any:
        if hasattr(call.layer, "state_size") and not isinstance(call.layer, keras.layers.RNN):
            return call.result
        if arrays_in((call.arguments, call.keywords)) is None:
            return call.result

        def altered(leaf: Any) -> Any:
            if not keras.ops.is_tensor(leaf) or "float" not in keras.backend.standardize_dtype(leaf.dtype):
                return leaf
            array = change(keras.ops.convert_to_numpy(leaf))
            return keras.ops.cast(keras.ops.convert_to_tensor(array), leaf.dtype)

        return keras.tree.map_structure(altered, call.result)

    return _watched(model, put)


@contextlib.contextmanager
def recorded_symbols(model: Any) -> Iterator[dict[str, list[Any]]]:
    """Records what the layers of a model return while it is traced.

    The value of the context holds the tensors of each call, under the path that `record_calls` gives it: once a trace
    has ended, nothing else tells which symbol was whose. Operations are left out: a model that is made again from its
    configuration has other names for them.
    """
    import keras

    symbols: dict[str, list[Any]] = {}
    names = _Numbered()

    def keep(path: str, call: _Seen) -> Any:
        returned = [leaf for leaf in keras.tree.flatten(call.result) if keras.ops.is_tensor(leaf)]
        if returned and isinstance(call.layer, keras.Layer):
            symbols[names.give(path)] = returned
        return call.result

    with _watched(model, keep):
        yield symbols


@contextlib.contextmanager
def recorded_arguments(model: Any) -> Iterator[list[tuple[Any, tuple[Any, ...]]]]:
    """Records what the layers of a model are given, by position, while it is called or traced."""
    given: list[tuple[Any, tuple[Any, ...]]] = []

    def keep(_: str, call: _Seen) -> Any:
        given.append((call.layer, call.arguments))
        return call.result

    with _watched(model, keep):
        yield given


class _Numbered:
    """Gives a path its name: from the second call on with the number of the call."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def give(self, path: str) -> str:
        self._counts[path] += 1
        return path if self._counts[path] == 1 else f"{path}#{self._counts[path]}"


@dataclass(frozen=True)
class _Seen:
    """A call that has returned: see `LayerCall`."""

    layer: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any
    depth: int


def _watched(model: Any, returned: Callable[[str, _Seen], Any]) -> contextlib.AbstractContextManager[None]:
    """Lets every call that this thread makes of a layer or operation of the model return what a function makes of it.

    The function is given the path of the layer and the call.
    """
    depth = 0

    def show(path: str, layer: Any, usual: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        nonlocal depth
        depth += 1
        try:
            result = usual(*arguments, **keywords)
        finally:
            depth -= 1
        return returned(path, _Seen(layer, arguments, keywords, result, depth))

    shown = [
        (
            layer,
            "quantized_call" if getattr(layer, "quantization_mode", None) else "call",
            functools.partial(show, path, layer),
        )
        for path, layer in layer_paths(model)
    ]
    return replaced_functions(shown)


def arrays_in(structure: Any) -> tuple[Array, ...] | None:
    """Returns the tensors in a structure as arrays; None where one is a symbol. What is no tensor is left out."""
    import keras

    arrays = []
    for leaf in keras.tree.flatten(structure):
        if keras.ops.is_tensor(leaf) or isinstance(leaf, np.ndarray):
            try:
                arrays.append(np.asarray(keras.ops.convert_to_numpy(leaf)))
            except Exception:  # each backend has an error of its own for a symbol
                return None
    return tuple(arrays)
