"""`keras-pe check`: does the artifact say what the model says?"""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from keras_pe.export.parity.report import ParityReport

_EXISTING = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("model", type=_EXISTING)
@click.argument("artifacts", type=_EXISTING, nargs=-1)
@click.option("--runtime", "runtimes", multiple=True, help="A runtime by name, such as onnxruntime; all by default.")
@click.option("--inputs", type=_EXISTING, multiple=True, help="An .npz file to feed instead of the sweep.")
@click.option(
    "--range", "ranges", type=(str, float, float), multiple=True, help="NAME LOW HIGH: an input's fair values."
)
@click.option("--seed", default=0, show_default=True, help="Of the sweep.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds a runtime may take for one answer.")
@click.option(
    "--report",
    "reports",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Write the report here, as .html, .json, .md or .xml (JUnit).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, and nothing else.")
def check(
    model: Path,
    artifacts: tuple[Path, ...],
    runtimes: tuple[str, ...],
    inputs: tuple[Path, ...],
    ranges: tuple[tuple[str, float, float], ...],
    seed: int,
    timeout: float,
    reports: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Run MODEL and the ARTIFACTS made from it on the same inputs, and name the cause where they differ.

    MODEL is a .keras file, another artifact (.onnx, .tflite, SavedModel folder), or an .npz file with arrays
    inputs/NAME and outputs/NAME. Exits with 0 if they agree, 1 if they do not, 2 if the check could not be tried.
    """
    from keras_pe.export.parity.check import check_parity
    from keras_pe.export.parity.reports import check_report_path, write_report
    from keras_pe.export.runtimes.protocol import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError

    try:
        for path in reports:
            check_report_path(path)
        with nullcontext() if as_json else _progress() as progress:
            report = check_parity(
                model,
                artifacts,
                inputs=inputs or None,
                ranges={name: (low, high) for name, low, high in ranges},
                runtimes=runtimes or None,
                seed=seed,
                timeout=timeout,
                progress=progress,
            )
    except (ValueError, TypeError, ImportError, OSError) as error:
        raise _CouldNotBeTriedError(str(error)) from error
    except (RuntimeRefusedError, RuntimeDiedError, RuntimeHungError) as error:
        raise _CouldNotBeTriedError(f"{model} could not be opened: {error}") from error
    _show(report, as_json)
    try:
        for path in reports:
            write_report(report, path)
    except OSError as error:
        raise _CouldNotBeTriedError(f"The report was not written: {error}") from error
    raise SystemExit(0 if report.passed else 1)


def _show(report: "ParityReport", as_json: bool) -> None:
    if as_json:
        from keras_pe.export.parity.reports.json_text import render

        click.echo(render(report), nl=False)
    else:
        from rich.console import Console

        from keras_pe.export.parity.reports import terminal

        Console().print(terminal.render(report))


class _CouldNotBeTriedError(click.ClickException):
    exit_code = 2


class _progress:  # noqa: N801 - a context manager that reads as one
    """Shows what runs, on the standard error; the value of the context is what `check_parity` calls."""

    def __enter__(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("[progress.description]{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("loading the model", total=None)
        return lambda done, total, what: self._bar.update(task, completed=done, total=total, description=what)

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
