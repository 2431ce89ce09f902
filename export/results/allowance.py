"""What a user accepts beside what rounding in the model's own precision explains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

HALF = ("float16", "bfloat16")
"""The floats of 16 bits."""

PRECISIONS = (*HALF, "int8")
"""The precisions whose rounding may be accepted."""


@dataclass(frozen=True)
class Allowance:
    """What a user accepts of an artifact that differs on purpose, as one that is stored in fewer bits does.

    Nothing is accepted by default. Each of these allows more than the strict law, and none allows less.

    Attributes:
        rtol: The difference allowed, as a share of the magnitude of the value expected.
        atol: The absolute difference allowed, added to that of `rtol`: in every output, or by the name of the output.
        precision: "float16", "bfloat16" or "int8": 8 times what rounding of the weights and inputs to it does to the
            model's own answer is allowed, and outputs may be of that type.
        allow_changed: The share of decisions that may change: in a sweep of the rows of an output of probabilities,
            whose largest decides, and of the values of an output of integers; of a data set's rows.

    Raises:
        ValueError: If one of them makes no sense.
    """

    rtol: float = 0.0
    atol: float | Mapping[str, float] = 0.0
    precision: str | None = None
    allow_changed: float = 0.0

    def __post_init__(self) -> None:
        """Refuses what makes no sense."""
        of_outputs = self.atol if isinstance(self.atol, Mapping) else {"": self.atol}
        for name, value in (("rtol", self.rtol), *(("atol", value) for value in of_outputs.values())):
            if not 0 <= value < np.inf:
                raise ValueError(f"`{name}` must be at least 0, and finite. Received: {name}={value!r}.")
        if self.precision is not None and self.precision not in PRECISIONS:
            raise ValueError(
                f"`precision` must be one of: {', '.join(PRECISIONS)}; or None, for the model's own. "
                f"Received: precision={self.precision!r}."
            )
        if not 0 <= self.allow_changed <= 1:
            raise ValueError(f"`allow_changed` must be a share, from 0 to 1. Received: {self.allow_changed!r}.")

    @property
    def is_none(self) -> bool:
        """Whether nothing is accepted."""
        return self == Allowance()

    def atol_of(self, output: str) -> float:
        """Returns the absolute difference allowed in an output."""
        return self.atol.get(output, 0.0) if isinstance(self.atol, Mapping) else self.atol

    def check_outputs(self, outputs: Iterable[str]) -> None:
        """Raises ValueError unless every output that was named is one of these."""
        known = list(outputs)
        unknown = sorted(set(self.atol) - set(known)) if isinstance(self.atol, Mapping) else []
        if unknown:
            raise ValueError(f"`atol` must be of outputs: {', '.join(known)}. Received: {', '.join(unknown)}.")

    def __str__(self) -> str:
        parts = [f"rtol {self.rtol:g}"] if self.rtol else []
        if isinstance(self.atol, Mapping):
            parts += [f"atol {value:g} in {name!r}" for name, value in self.atol.items()]
        elif self.atol:
            parts.append(f"atol {self.atol:g}")
        parts += [f"rounding to {self.precision}"] if self.precision else []
        parts += [f"{100 * self.allow_changed:g} % changed decisions"] if self.allow_changed else []
        return ", ".join(parts) or "nothing"
