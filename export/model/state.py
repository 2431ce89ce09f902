"""The one way to call a model and leave its state alone: counters, moving means, seeds, the states of recurrences."""

from collections.abc import Iterable
from typing import Any


def state_left_alone(mapping: Iterable[tuple[Any, Any]] = ()) -> Any:
    """Returns a context in which every assignment to a variable of Keras is kept aside, and forgotten at its end.

    Calls within one context see what earlier ones assigned: a sequence of calls goes on from call to call as it would
    without the context. Nothing is copied. The value of the context is Keras' scope.

    Args:
        mapping: Variables and the values that they start with, where these are not their own.
    """
    import keras

    return keras.StatelessScope(state_mapping=list(mapping))
