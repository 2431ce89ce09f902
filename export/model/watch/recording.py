"""The record of a model's calls of its layers. The state of the model does not change."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.model.watch.code_places import is_users_module
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.results import Array


def state_left_alone(mapping: Iterable[tuple[Any, Any]] = ()) -> Any:
    """Returns a context that keeps every assignment to a variable of Keras separate, and discards it at the end.

    A call within the context reads the values that earlier calls assigned, as without the context. Nothing is copied.
    The value of the context is Keras' scope. Its `assigned` maps the identity of each assigned variable to the
    variable, even if the model does not list the variable.

    Args:
        mapping: Variables with other initial values, and these values.
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
    """Returns a context in which variables have other values, and in which assignments to them stay.

    All other variables have the values of the context around it. The value of the context is Keras' scope, whose
    `get_current_value` returns the assigned value. A value may have another batch than its variable.

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
        path: The path of the layer, joined by "/". Each call after the first has its number, as in "dense#2". The path
            of a subclassed model is empty.
        layer: The layer or operation.
        arguments: The positional arguments of the layer's `call`.
        keywords: The keyword arguments of the layer's `call`, masks included.
        inputs: The arrays among both, in order.
        outputs: The arrays that it returned, in order.
        depth: The number of recorded calls around it.
    """

    path: str
    layer: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    depth: int

    @property
    def layer_path(self) -> str:
        """The path of the layer, without the number of the call."""
        return self.path.partition("#")[0]


def record_calls(model: Any, run: Callable[[], Any]) -> list[LayerCall]:
    """Returns the calls of a model's layers, in the order in which they returned. Inner calls come first.

    The steps of a recurrent layer and calls on symbolic tensors, as in a compiled loop, are not recorded.

    Args:
        model: A built `keras.Model`. Only calls of its own layers are recorded.
        run: Calls the model, eagerly.
    """
    calls: list[LayerCall] = []
    names = _Numbered()

    def keep(path: str, call: _Call) -> Any:
        given, returned = arrays_in((call.arguments, call.keywords)), arrays_in(call.result)
        if given is not None and returned:
            name = names.give(path)
            calls.append(LayerCall(name, call.layer, call.arguments, call.keywords, given, returned, call.depth))
        return call.result

    with _replace_results(model, keep):
        run()
    return calls


def replaced_output(model: Any, path: str, index: int, array: Array) -> contextlib.AbstractContextManager[None]:
    """Lets one call of a layer in a model return another array, while this thread calls the model once.

    Args:
        model: The model.
        path: The path of the call, as in `LayerCall`.
        index: The index of the replaced output.
        array: The new output, with the shape and dtype of the replaced one.
    """
    import keras

    names = _Numbered()

    def put(own: str, call: _Call) -> Any:
        if own != path.partition("#")[0] or arrays_in((call.arguments, call.keywords)) is None:
            return call.result
        if names.give(own) != path:
            return call.result
        leaves = keras.tree.flatten(call.result)
        tensors = [number for number, leaf in enumerate(leaves) if keras.ops.is_tensor(leaf)]
        leaves[tensors[index]] = keras.ops.convert_to_tensor(array)
        return keras.tree.pack_sequence_as(call.result, leaves)

    return _replace_results(model, put)


def scaled_outputs(model: Any, factor: float) -> contextlib.AbstractContextManager[None]:
    """Lets every layer of a model return its floats times a factor, while this thread calls the model.

    Whole numbers and numbers of 17 bits do not change. They have no rounding error, and thresholds and steps are there.

    Args:
        model: The model.
        factor: A number close to 1.
    """
    import keras

    def scale(leaf: Any) -> Any:
        dtype = keras.backend.standardize_dtype(leaf.dtype) if keras.ops.is_tensor(leaf) else "bool"
        if not keras.backend.is_float_dtype(dtype):
            return leaf
        large = leaf * (2**7 + 1)  # the difference below drops the last 7 bits
        is_exact = keras.ops.logical_or(leaf == keras.ops.round(leaf), leaf == large - (large - leaf))
        return keras.ops.where(is_exact, leaf, leaf * keras.ops.cast(factor, leaf.dtype))

    return _replace_results(model, lambda _, call: keras.tree.map_structure(scale, call.result))


def altered_outputs(model: Any, change: Callable[[Array], Array]) -> contextlib.AbstractContextManager[None]:
    """Passes every array of floats that a layer or operation of a model returns through a function, in this thread.

    The steps of a recurrent layer do not change.

    Args:
        model: The model.
        change: Returns another array of the same shape.
    """
    import keras

    def put(_: str, call: _Call) -> Any:
        if hasattr(call.layer, "state_size") and not isinstance(call.layer, keras.layers.RNN):
            return call.result
        if arrays_in((call.arguments, call.keywords)) is None:
            return call.result

        def change_leaf(leaf: Any) -> Any:
            if not keras.ops.is_tensor(leaf) or "float" not in keras.backend.standardize_dtype(leaf.dtype):
                return leaf
            array = change(keras.ops.convert_to_numpy(leaf))
            return keras.ops.cast(keras.ops.convert_to_tensor(array), leaf.dtype)

        return keras.tree.map_structure(change_leaf, call.result)

    return _replace_results(model, put)


@contextlib.contextmanager
def recorded_symbols(model: Any) -> Iterator[dict[str, list[Any]]]:
    """Records the results of a model's layers during a trace.

    The value of the context holds the tensors of each call by the path in `record_calls`. After the trace, no other
    record relates symbols to layers. Operations are excluded, since their names differ in a model that is rebuilt from
    its configuration.
    """
    import keras

    symbols: dict[str, list[Any]] = {}
    names = _Numbered()

    def keep(path: str, call: _Call) -> Any:
        returned = [leaf for leaf in keras.tree.flatten(call.result) if keras.ops.is_tensor(leaf)]
        if returned and isinstance(call.layer, keras.Layer):
            symbols[names.give(path)] = returned
        return call.result

    with _replace_results(model, keep):
        yield symbols


@contextlib.contextmanager
def recorded_arguments(model: Any) -> Iterator[list[tuple[Any, tuple[Any, ...]]]]:
    """Records each layer of a model with its positional arguments, while the model is called or traced."""
    given: list[tuple[Any, tuple[Any, ...]]] = []

    def keep(_: str, call: _Call) -> Any:
        given.append((call.layer, call.arguments))
        return call.result

    with _replace_results(model, keep):
        yield given


class _Numbered:
    """Numbers the calls of each path, except for the first call."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def give(self, path: str) -> str:
        self._counts[path] += 1
        return path if self._counts[path] == 1 else f"{path}#{self._counts[path]}"


@dataclass(frozen=True)
class _Call:
    """A call that has returned: see `LayerCall`."""

    layer: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any
    depth: int


def _replace_results(model: Any, returned: Callable[[str, _Call], Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces the result of each call of a layer or operation of the model in this thread by a function's result.

    The arguments of the function are the path of the layer and the call.
    """
    depth = 0

    def show(path: str, layer: Any, usual: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        nonlocal depth
        depth += bool(path)
        try:
            result = usual(*arguments, **keywords)
        finally:
            depth -= bool(path)
        return returned(path, _Call(layer, arguments, keywords, result, depth))

    # The `call` of a subclassed model is code like that of a layer. So is the `step` that an adapter calls.
    modules = [type(each).__module__ for each in (model, getattr(model, "model", model))]
    own = [("", model)] if any(map(is_users_module, modules)) else []
    return replaced_functions(
        (
            layer,
            "quantized_call" if getattr(layer, "quantization_mode", None) else "call",
            functools.partial(show, path, layer),
        )
        for path, layer in [*layer_paths(model), *own]
    )


def arrays_in(structure: Any) -> tuple[Array, ...] | None:
    """Returns the tensors in a structure as arrays, without other leaves; None if a tensor is symbolic."""
    import keras

    arrays = []
    for leaf in keras.tree.flatten(structure):
        if keras.ops.is_tensor(leaf) or isinstance(leaf, np.ndarray):
            try:
                arrays.append(np.asarray(keras.ops.convert_to_numpy(leaf)))
            except Exception:  # each backend has an error of its own for a symbol
                return None
    return tuple(arrays)
