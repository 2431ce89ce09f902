"""Edits of a recorded call: what a site proposes, and the search computes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from keras_pe.export.results import Array, Cause


@dataclass(frozen=True)
class Edit:
    """One thing changed about a call.

    Attributes:
        cause: What it is called.
        said: What is changed, as in "with epsilon=0.1 instead of 0.001"; of an output, what stands there instead.
        compute: Returns what the call would return; None where that is no output of its shape.
        is_output: Whether it is the output that is changed, and the layer is not called.
    """

    cause: Cause
    said: str
    compute: Callable[[], Array | None]
    is_output: bool = False

    def __str__(self) -> str:
        if self.is_output:
            return f"The artifact holds {self.said}."
        return f"{self.said[:1].upper()}{self.said[1:]} the layer gives the artifact's numbers."


@dataclass(frozen=True)
class NumericEdit:
    """Numbers of a call that are to be found.

    Attributes:
        start: What they are.
        compute: Returns what the call returns with others.
        edit: Returns the edit for numbers that were found.
    """

    start: Mapping[str, float]
    compute: Callable[..., Array]
    edit: Callable[[Mapping[str, float]], Edit]


Edits = Iterator[Edit | NumericEdit]
