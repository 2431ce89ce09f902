"""What lets a model be traced that Keras runs eagerly: sizes that are tensors, and Python's `for` and `if` over them.

Keras 3.15 traces its layers' calls as they are written. A loop over as many steps as the input has, which Python runs
eagerly, is none in a graph, unless AutoGraph has made one of it.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from keras_pe.export.model.keras_internals import replaced_calls, resizing_to_tensors

_Result = TypeVar("_Result")


def as_traceable(layers: Iterable[Any], trace: Callable[[], _Result]) -> _Result:
    """Returns what a function that traces a model returns.

    Where it raises, it is called once more, with AutoGraph reading the calls of the layers that are not Keras' own.

    Args:
        layers: The model, then every layer in it.
        trace: Traces the model.

    Raises:
        Exception: Whatever the layers raise as they are written.
    """
    with resizing_to_tensors():
        try:
            return trace()
        except Exception as error:  # a layer may raise anything where a size is not known
            calls = _converted_calls(layers)
            try:
                with replaced_calls(calls):
                    return trace()
            except Exception:
                raise error from None


def _converted_calls(layers: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    """Returns each layer's call as AutoGraph reads it, for those that have one of their own and whose code is known."""
    import tensorflow as tf

    converted: dict[Any, Callable[..., Any] | None] = {}
    for call in {type(layer).call for layer in layers}:
        is_own = call.__module__.partition(".")[0] != "keras"
        try:
            converted[call] = tf.autograph.to_graph(call) if is_own else None
        except Exception:  # whatever AutoGraph raises where it cannot read the code
            converted[call] = None
    return {
        layer: functools.partial(_call, own, layer)
        for layer in layers
        if (own := converted[type(layer).call]) is not None
    }


def _call(converted: Callable[..., Any], layer: Any, usual: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return converted(layer, *args, **kwargs)
