"""How long the parts of a check may take, the same for every check, and what a diagnosis did not get to."""

from collections.abc import Callable
from time import perf_counter

TIMEOUT = 120.0
"""Seconds that a runtime may take to load, or for one answer, unless told otherwise."""
DIAGNOSIS_SECONDS = 60.0
"""Seconds that the search for a cause may take, unless told otherwise."""


def check_seconds(timeout: float, diagnosis_seconds: float) -> None:
    """Raises ValueError unless a runtime may take some time, and a diagnosis some or none."""
    if not timeout > 0:
        raise ValueError(f"`timeout` must be above 0 seconds. Received: timeout={timeout!r}.")
    if not diagnosis_seconds >= 0:
        raise ValueError(f"`diagnosis_seconds` must be at least 0. Received: diagnosis_seconds={diagnosis_seconds!r}.")


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
