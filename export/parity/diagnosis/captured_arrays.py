"""Finds arrays that a layer captures: constants of its calls, attributes, and objects that its functions refer to."""

import contextlib
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.comparison.float_types import EPSILON
from keras_pe.export.model.watch.keras_internals import symbolic_arguments
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.results import Array

LEAST_VALUES = 8  # smaller arrays occur in any artifact by chance
_LIBRARIES = ("jax", "keras", "keras_pe", "numpy", "tensorflow", "torch")
_DEEPEST = 4  # largest depth of nested containers and functions
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


@dataclass(frozen=True)
class CapturedArray:
    """An array that a layer computes with although it is not a weight of the model.

    Attributes:
        path: A name in the form of a weight's path.
        value: The array.
    """

    path: str
    value: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.value.shape

    @property
    def dtype(self) -> str:
        """The type of its floats, by NumPy's name."""
        return self.value.dtype.name


def captured_arrays(model: Any) -> Iterator[tuple[str, CapturedArray]]:
    """Yields the path of a layer and each array of floats that it captures, without small arrays and weights.

    Captured arrays come from the arguments of calls in a functional model, from attributes, and from objects that
    functions refer to: closures, defaults and globals. A captured layer's weights count as well.
    """
    paths = list(layer_paths(model))
    known = {id(layer) for _, layer in paths} | {id(variable) for variable in model.variables}
    for path, layer in paths:
        number = 0
        arrays = _layer_arrays(layer, known)
        distinct = {(a.shape, a.dtype, a.tobytes() if a.dtype != object else b""): a for a in arrays}
        for array in distinct.values():
            if array.dtype.name in EPSILON and array.size >= LEAST_VALUES:
                # Keras layers cast a float64 table to their compute dtype.
                value = array.astype(np.float32) if array.dtype == np.float64 else array
                yield path, CapturedArray(f"{path}/array {number} of its call", value)
                number += 1


def _layer_arrays(layer: Any, known: set[int]) -> Iterator[Array]:
    import keras

    for leaf in keras.tree.flatten(symbolic_arguments(layer)):
        if not isinstance(leaf, keras.KerasTensor | keras.Variable):
            yield from _arrays(leaf, known, 0)
    for name, value in vars(layer).items():
        if name not in _own_attributes() and (isinstance(value, _FUNCTIONS) or not _is_of_library(type(layer))):
            yield from _arrays(value, known, 0)
    if not _is_of_library(type(layer)):
        yield from _arrays(type(layer).call, known, 0)


@functools.cache
def _own_attributes() -> frozenset[str]:
    """Returns the attributes that every Keras layer has."""
    import keras

    return frozenset(vars(keras.layers.Layer()))


def _arrays(value: Any, known: set[int], depth: int) -> Iterator[Array]:
    """Yields the arrays in a value, also in containers and functions, but not in layers and variables of the model."""
    import keras

    value = value.__func__ if isinstance(value, types.MethodType) else value
    if depth > _DEEPEST or id(value) in known or isinstance(value, keras.KerasTensor):
        return
    if isinstance(value, keras.Variable):
        yield np.asarray(keras.ops.convert_to_numpy(value.value))
    elif isinstance(value, np.ndarray):
        yield value
    elif keras.ops.is_tensor(value):
        with contextlib.suppress(AttributeError, NotImplementedError, TypeError):  # a tensor of a graph has no values
            yield np.asarray(keras.ops.convert_to_numpy(value))
    for part in _parts(value):
        yield from _arrays(part, known, depth + 1)


def _parts(value: Any) -> Iterable[Any]:
    """Returns the objects that a layer, a container or a function has or refers to."""
    import keras

    if isinstance(value, keras.Layer):
        return value.weights  # type: ignore[no-any-return]
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.FunctionType) and not _is_of_library(value):
        return _references(value)
    return value if isinstance(value, list | tuple) else ()


def _references(function: types.FunctionType) -> Iterator[Any]:
    """Yields the objects that a function refers to: closure cells, defaults, and named globals."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is empty
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)


def _is_of_library(value: Any) -> bool:
    """Whether a class or a function belongs to a library, whose constants are not the user's."""
    return str(value.__module__).partition(".")[0] in _LIBRARIES
