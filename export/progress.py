"""Who is told how far a check or an export is: a function of the caller's, a bar on the screen, or nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int | None, str], None]
"""Called with what is done, of how much (None where that is not known), and what comes next."""


@contextmanager
def telling(progress: Callable[[int, int, str], None] | Tell | bool | None, unit: str = "") -> Iterator[Tell]:
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
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
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
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("start", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what or "running")
