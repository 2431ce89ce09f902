"""Variables that every call sets to the same values, as a layer does that masks its kernel each time: no state."""

from collections.abc import Collection
from typing import Any

import numpy as np

from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.state import state_left_alone


def is_constant(model: Any, signature: Signature, variables: Collection[Any]) -> bool:
    """Returns whether the calls of a model are alike, although they assign to variables.

    What is assigned must depend on variables alone. Then it stays what it is if a second call assigns it again, and the
    first call was no other one if it has returned what a later one does.

    Args:
        model: The Keras model.
        signature: Its signature.
        variables: What calls assign to and outputs depend on.
    """
    if not variables:
        return True
    inputs = signature.varied()
    calls = []
    with state_left_alone() as scope:
        for _ in range(2):
            returned = list(signature.call(model, inputs).values())
            calls.append([*returned, *(scope.get_current_value(variable) for variable in variables)])
    return all(np.array_equal(first, second, equal_nan=True) for first, second in zip(*calls, strict=True))
