"""How long a diagnosis may take, and what it did not get to."""

from collections.abc import Callable
from time import perf_counter

DIAGNOSIS_SECONDS = 60.0


class OutOfTimeError(Exception):
    """The time of a diagnosis is over."""


class Budget:
    """The time that is left to a diagnosis. It begins when this is made.

    Attributes:
        seconds: How long it may take.
    """

    def __init__(self, seconds: float = DIAGNOSIS_SECONDS, tell: Callable[[str], None] | None = None) -> None:
        self.seconds = seconds
        self.tell = tell or (lambda what: None)
        self._end = perf_counter() + seconds

    def check(self) -> None:
        """Raises OutOfTimeError when the time is over: called before each step that may take long."""
        if perf_counter() >= self._end:
            raise OutOfTimeError(f"{self.seconds:g} s are over")
