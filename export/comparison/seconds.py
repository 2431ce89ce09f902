"""How long a check takes, stage by stage, and how long its parts may take."""

import datetime
import time
from collections.abc import Callable
from time import perf_counter

from keras_pe.export.results import Stage

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


class Stopwatch:
    """Measures one stage after another, from its making on.

    Attributes:
        stages: Those that have ended, in their order; a name that came again is one stage.
    """

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._start = _now()

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(self._stages.values())

    def stage(self, name: str, runtime_seconds: float | None = None) -> None:
        """Ends a stage; `runtime_seconds` are those that a runtime took inside of it."""
        now = _now()
        before = self._stages.get(name, Stage(name, 0.0, 0.0))
        seconds, processor = (end - start for start, end in zip(self._start, now, strict=True))
        spent = before.seconds + seconds, before.processor_seconds + processor
        if runtime_seconds is not None:
            runtime_seconds += before.runtime_seconds or 0.0
        self._stages[name] = Stage(name, *spent, runtime_seconds)
        self._start = now


def date() -> str:
    """Returns the date and the time to the second, in UTC and in the form of ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
