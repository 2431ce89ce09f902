"""Where the time of a check goes: one stage after another, each with its seconds and the processor's."""

import datetime
import time

from keras_pe.export.results import Stage


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
