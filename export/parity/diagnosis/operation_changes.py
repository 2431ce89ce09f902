"""Changes of one operation inside a layer: its result with other operands or arguments."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operations import Key, Operation, again, is_plain_tensor, tensors_in
from keras_pe.export.parity.diagnosis.layer_call import as_array, as_tensor
from keras_pe.export.results import Array


def with_operands(
    change: Callable[[list[Any]], Sequence[Any]], operation: Operation, arguments: Any, names: Any
) -> Any:
    """Returns an operation's result with other operands, which `change` makes of its own."""
    import keras

    given = (tuple(arguments), dict(names))
    others = iter(change(tensors_in(given)))
    positional, keywords = keras.tree.map_structure(lambda leaf: next(others) if is_plain_tensor(leaf) else leaf, given)
    return again(operation, positional, keywords)


def with_argument(key: Key, change: Callable[[Any], Any], operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns an operation's result with a function of an argument. A tensor, which a loop may pass later, stays."""
    if isinstance(key, int):
        own = arguments[key]
        other = own if is_plain_tensor(own) else change(own)
        return again(operation, [*arguments[:key], other, *arguments[key + 1 :]], names)
    return again(operation, arguments, {**names, key: change(names[key])})


def constantly(value: Any) -> Callable[[Any], Any]:
    """Returns the function that returns a value for each argument."""
    return lambda _: value


def with_leaf(old: Any, new: Any, operation: Operation, arguments: Any, names: Any) -> Any:
    """Returns an operation's result with one value in its arguments replaced."""
    import keras

    given = (tuple(arguments), dict(names))
    return again(operation, *keras.tree.map_structure(lambda leaf: new if leaf is old else leaf, given))


def put(operands: Sequence[Any], number: int, tensor: Any) -> list[Any]:
    """Returns operands with one of them replaced."""
    return [*operands[:number], tensor, *operands[number + 1 :]]


def on_tensor(function: Callable[[Array], Array], tensor: Any) -> Any:
    """Returns the result of a function of arrays for a tensor, in the type of the tensor."""
    own = as_array(tensor)
    return as_tensor(np.asarray(function(own)).astype(own.dtype))
