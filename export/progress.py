"""How far a check or an export is and who is told, how long it took, and how long it may take."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from time import perf_counter, process_time

from keras_pe.export.results import Stage

Tell = Callable[[int, int | None, str], None]
"""Called with what is done, of how much (None where that is not known), and what comes next."""
Progress = Callable[[int, int, str], None]
"""The same where it is always known of how much."""

TIMEOUT = 120.0
"""Seconds that a runtime may take to load, or for one answer, unless told otherwise."""
DIAGNOSIS_SECONDS = 60.0
"""Seconds that the search for a cause may take, unless told otherwise."""


@contextmanager
def telling(progress: Progress | Tell | bool | None, unit: str = "") -> Iterator[Tell]:
    """Yields what to call; a bar goes when the block ends.

    Args:
        progress: The caller's function, True for a bar, None or False for nobody.
        unit: What is counted, such as "rows": with one the bar says how many a second.
    """
    if callable(progress):
        yield progress  # type: ignore[misc]  # whoever knows the total never passes None for it
    elif progress:
        with _bar(unit) as tell:
            yield tell
    else:
        yield lambda done, total, what: None


@contextmanager
def telling_stages(progress: Callable[[str], None] | bool | None) -> Iterator[Callable[[str], None]]:
    """Yields what to call with the name of each stage when it starts; otherwise like `telling`."""
    if callable(progress):
        yield progress
        return
    with telling(progress) as tell:
        yield lambda stage: tell(0, None, stage)


@contextmanager
def _bar(unit: str) -> Iterator[Tell]:
    """Shows a bar on the standard error if that is a terminal, or in the notebook that this runs in."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):  # it would leave an empty line there
        yield lambda done, total, what: None
        return

    class Done(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.total is None and not task.completed:
                return Text()
            total = "" if task.total is None else f" of {task.total:,.0f}"
            speed = task.finished_speed or task.speed
            rate = f" {unit}, {speed:,.0f} a second" if unit and speed else f" {unit}".rstrip()
            return Text(f"{task.completed:,.0f}{total}{rate}")

    # What is said stands as it is: rich would take the brackets of "onnxruntime[all]" for markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), Done(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("start", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what or "running")


def check_seconds(timeout: float, diagnosis_seconds: float) -> None:
    """Raises ValueError unless a runtime may take some time, and a diagnosis some or none."""
    if not (isinstance(timeout, Real) and timeout > 0):
        raise ValueError(f"`timeout` must be above 0 seconds. Received: timeout={timeout!r}.")
    if not (isinstance(diagnosis_seconds, Real) and diagnosis_seconds >= 0):
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
    return perf_counter(), process_time()
