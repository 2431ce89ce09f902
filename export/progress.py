"""The progress, the measured times and the time limits of exports and checks."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from time import perf_counter, process_time

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.results import Stage

Tell = Callable[[int, int | None, str], None]
"""A function of the completed count, the total (None if it is unknown) and the name of the next step."""
Progress = Callable[[int, int, str], None]
"""A function of the completed count, the known total and the name of the next step."""

TIMEOUT = 120.0
"""The default limit, in seconds, for a runtime to load or to answer once."""
DIAGNOSIS_SECONDS = 60.0
"""The default limit, in seconds, for the search for a cause."""
_LINE_SECONDS = 60.0
"""The time between two lines of progress in a file or pipe."""


@contextmanager
def telling(progress: Progress | Tell | bool | None, unit: str = "") -> Iterator[Tell]:
    """Yields a function to call with the progress. A bar disappears when the block ends.

    Args:
        progress: The caller's function; True for a bar; None or False for no report.
        unit: The unit of the count, such as "rows". With a unit, the bar also shows the rate per second.
    """
    if callable(progress):
        yield progress  # type: ignore[misc]  # a caller that knows the total does not pass None
    elif progress:
        with _bar(unit) as tell:
            yield tell
    else:
        yield lambda done, total, what: None


@contextmanager
def telling_stages(progress: Callable[[str], None] | bool | None) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with the name of each stage when the stage starts. See `telling`."""
    if callable(progress):
        yield progress
        return
    with telling(progress) as tell:
        yield lambda stage: tell(0, None, stage)


@contextmanager
def _bar(unit: str) -> Iterator[Tell]:
    """Shows a bar in a notebook, or on the standard error if it is a terminal. Otherwise prints a line a minute."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):  # in a file or pipe, the bar would leave an empty line
        printed = perf_counter()

        def tell(done: int, total: int | None, what: str) -> None:
            nonlocal printed
            if perf_counter() >= printed + _LINE_SECONDS:
                total_text = "" if total is None else f" of {total:,}"
                counted = f": {done:,}{total_text} {unit}".rstrip() if done or total else ""
                console.print(f"{what or 'running'}{counted}", markup=False, highlight=False, soft_wrap=True)
                printed = perf_counter()

        yield tell
        return

    class Done(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.total is None and not task.completed:
                return Text()
            total = "" if task.total is None else f" of {task.total:,.0f}"
            speed = task.finished_speed or task.speed
            rate = f" {unit}, {speed:,.0f} a second" if unit and speed else f" {unit}".rstrip()
            return Text(f"{task.completed:,.0f}{total}{rate}")

    # Markup is off, since rich would treat the brackets of "onnxruntime[all]" as markup and drop them.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), Done(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("start", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what or "running")


def check_seconds(timeout: float, diagnosis_seconds: float) -> None:
    """Raises ValueError unless the timeout of a runtime is positive and that of a diagnosis is at least 0."""
    if not (isinstance(timeout, Real) and timeout > 0):
        raise ArgValueError("timeout", f"must be above 0 seconds. Received: timeout={timeout!r}.")
    if not (isinstance(diagnosis_seconds, Real) and diagnosis_seconds >= 0):
        raise ArgValueError(
            "diagnosis_seconds", f"must be at least 0. Received: diagnosis_seconds={diagnosis_seconds!r}."
        )


class OutOfTimeError(Exception):
    """The time limit of a diagnosis has passed."""


class Budget:
    """The time limit of a diagnosis. The time starts when the object is created.

    Attributes:
        seconds: The limit in seconds.
    """

    def __init__(self, seconds: float = DIAGNOSIS_SECONDS, tell: Callable[[str], None] | None = None) -> None:
        self.seconds = seconds
        self.tell = tell or (lambda what: None)
        self._end = perf_counter() + seconds

    def check(self) -> None:
        """Raises OutOfTimeError if the limit has passed. Call it before each step that may take long."""
        if perf_counter() >= self._end:
            raise OutOfTimeError(f"{self.seconds:g} s are over")


class Stopwatch:
    """Measures consecutive stages. The first stage starts when the object is created.

    Attributes:
        stages: The ended stages, in order. Stages with equal names are added up.
    """

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._start = _now()

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(self._stages.values())

    def stage(self, name: str, runtime_seconds: float | None = None) -> None:
        """Ends a stage. `runtime_seconds` are the part of its seconds that a runtime took."""
        now = _now()
        before = self._stages.get(name, Stage(name, 0.0, 0.0))
        seconds, processor = (end - start for start, end in zip(self._start, now, strict=True))
        spent = before.seconds + seconds, before.processor_seconds + processor
        if runtime_seconds is not None:
            runtime_seconds += before.runtime_seconds or 0.0
        self._stages[name] = Stage(name, *spent, runtime_seconds)
        self._start = now


def date() -> str:
    """Returns the current date and time in UTC, to the second, in ISO 8601 format."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _now() -> tuple[float, float]:
    return perf_counter(), process_time()
