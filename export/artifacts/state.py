"""The state of an artifact: the inputs and outputs that carry the model's variables from call to call."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.json_records import read_record


def state_output(name: str) -> str:
    """Returns the name of the output that has the next value of an input."""
    return f"{name}_out"


@dataclass(frozen=True)
class State:
    """One variable of a model, which an artifact takes and returns.

    Attributes:
        input: The name of the input with the value before a call.
        output: The name of the output with the value after a call, which is the input of the next call.
        shape: The shape before the first call. The first entry is a name if every row of the batch has a state of its
            own, for any batch. A size of 0 grows from call to call, as the cache of a decoder does. A later name is the
            length of a shared cache, which holds every token of a text.
        dtype: NumPy's name of the element type.
        initial: The value before the first call: one number for all elements, or nested lists of one row or of all.
        is_recurrent: Whether the variable belongs to a recurrent layer, whose `reset_state` makes it zero.
    """

    input: str
    output: str
    shape: tuple[int | str, ...]
    dtype: str
    initial: Any
    is_recurrent: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether a call writes into the array of the call before, which has rows for all tokens of a text."""
        return any(isinstance(size, str) for size in self.shape[1:])

    def start(self, batch: int, length: int | None = None) -> npt.NDArray[Any]:
        """Returns the value before the first call.

        Args:
            batch: The number of rows, if the batch is free.
            length: The length of a shared cache.

        Raises:
            ValueError: If the rows of the initial state differ, and their number is not `batch`, or if a shared cache
                has no length.
        """
        if length is None and self.is_shared:
            raise ArgValueError(
                "length",
                f"must be the largest number of tokens of a text: {self.input!r} does not grow. Received: None.",
            )
        free = [batch, *[length or 0] * len(self.shape)]
        shape = tuple(free[axis] if isinstance(size, str) else size for axis, size in enumerate(self.shape))
        value = np.asarray(self.initial, self.dtype)
        if value.ndim == len(shape) and value.shape != shape:
            raise ArgValueError(
                "batch", f"must be {len(value)}: the initial rows of {self.input!r} differ. Received: {batch}."
            )
        return np.broadcast_to(value, shape).copy()


def initial_value(value: npt.NDArray[Any], has_rows: bool) -> Any:
    """Returns an array as the attribute `initial` of a state, in the shortest form.

    Args:
        value: The value of a variable.
        has_rows: Whether the first axis is the batch.
    """
    if value.size and (value == value.flat[0]).all():
        return value.flat[0].item()
    return (value[0] if has_rows and (value == value[:1]).all() else value).tolist()


def states_to_json(states: Iterable[State]) -> str:
    """Returns the states as the text of an artifact's metadata."""
    return json.dumps([asdict(state) for state in states])


def states_from_json(text: str) -> tuple[State, ...]:
    """Returns the states that `states_to_json` has written.

    Raises:
        ValueError: If the text is not such a record.
    """
    return read_record(
        text, lambda states: tuple(State(**{**each, "shape": tuple(each["shape"])}) for each in states), "a state"
    )
