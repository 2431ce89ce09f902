"""Edits of a call as functions of it: what a site proposes in one case, and the search tries in every one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause

Compute = Callable[[LayerFault], Array | None]
"""Returns what a call would return; None where that is no output of its shape."""


@dataclass(frozen=True)
class Edit:
    """One thing changed about a call.

    Attributes:
        cause: What it is called.
        said: What is changed, as in "with epsilon=0.1 instead of 0.001"; of an output, what stands there instead.
        compute: What the call would return, in whatever case it was made.
        is_output: Whether it is the output that is changed, and the layer is not called.
        of: What is called.
    """

    cause: Cause
    said: str
    compute: Compute
    is_output: bool = False
    of: str = "the layer"

    def __str__(self) -> str:
        if self.is_output:
            return f"The artifact holds {self.said}."
        return f"{self.said[:1].upper()}{self.said[1:]} {self.of} gives the artifact's numbers."


@dataclass(frozen=True)
class NumericEdit:
    """Numbers of a call that are to be found.

    Attributes:
        start: What they are.
        compute: Returns what the call returns with others.
        cause: Returns what it is called when some of them are others.
        said: Returns how that is said, with each number as a text.
        is_output: As in `Edit`.
    """

    start: Mapping[str, float]
    compute: Callable[[LayerFault, Mapping[str, float]], Array | None]
    cause: Callable[[list[str]], Cause]
    said: Callable[[Mapping[str, str]], str]
    is_output: bool = False

    def edit(self, numbers: Mapping[str, float]) -> Edit:
        """Returns the edit for numbers that were found."""
        said = self.said({name: f"{value:.6g}" for name, value in numbers.items()})
        return Edit(self.cause(list(numbers)), said, lambda fault: self.compute(fault, numbers), self.is_output)


Edits = Iterator[Edit | NumericEdit]
Site = Callable[[LayerFault], Edits]
"""Where something may have been changed."""


def factor(
    cause: Cause, what: str, compute: Callable[[LayerFault, float], Array], *, is_output: bool = False
) -> NumericEdit:
    """Returns the edit that is an array times a number.

    Args:
        cause: What it is called.
        what: Which array, as in "with 'mix/kernel'".
        compute: Returns what the call returns with the array times a number.
        is_output: As in `Edit`.
    """
    return NumericEdit(
        {"factor": 1.0},
        lambda fault, numbers: compute(fault, numbers["factor"]),
        lambda _: cause,
        lambda numbers: f"{what} times {numbers['factor']}",
        is_output,
    )
