"""The one way to call a model and leave its state alone: counters, moving means, seeds, the states of recurrences."""

from collections.abc import Iterable
from typing import Any


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
