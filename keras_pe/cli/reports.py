"""Shared parts of the commands that run a model: printing and writing the report, and the exit."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_pe.cli.exit_codes import CouldNotBeTriedError, describe, tried
from keras_pe.cli.options import Verbosity

if TYPE_CHECKING:
    from keras_pe.export.parity.reports.report import Report

_LONGEST = 86_400.0  # seconds: a day


def _check_timeout(context: click.Context, parameter: click.Parameter, seconds: float) -> float:
    if not 0 < seconds <= _LONGEST:
        raise click.BadParameter(f"It must be above 0 and at most a day. Received: {seconds:g} seconds.")
    return seconds


timeout_option = click.option(
    "--timeout",
    default=120.0,
    callback=_check_timeout,
    show_default=True,
    help="The most seconds for one answer of a runtime.",
)


def _check_reports(context: click.Context, parameter: click.Parameter, reports: tuple[Path, ...]) -> tuple[Path, ...]:
    if reports:
        from keras_pe.export.parity.reports.report import check_report_path

        with tried(what="--report"):
            for path in reports:
                check_report_path(path)
    return reports


reports_option = click.option(
    "--report",
    "reports",
    type=click.Path(path_type=Path),
    multiple=True,
    callback=_check_reports,
    help="Write the report here, as .html, .json, .md or .xml (JUnit).",
)


@contextlib.contextmanager
def checked(what: Path | None) -> Iterator[None]:
    """Ends the command with 2 and a sentence if a check raises what it documents; anything else keeps its traceback."""
    from keras_pe.export.errors import ForeignExitError, RuntimeFailedError, sentence

    try:
        with tried():
            yield
    except RuntimeFailedError as error:
        raise CouldNotBeTriedError(f"{what} could not be opened: {error}") from error
    except ForeignExitError as error:
        raise CouldNotBeTriedError(f"{what} could not be checked: {sentence(error)}") from error


def save_reports(report: "Report", paths: Iterable[Path]) -> list[str]:
    """Writes a report to some files, and returns the errors of those that cannot be written."""
    lost = []
    for path in paths:
        try:
            report.save(path)
        except OSError as error:  # if this disk is full, the next file may still fit on another
            lost.append(describe(error))
    return lost


def show_report(report: "Report", as_json: bool, verbosity: Verbosity) -> None:
    """Prints a report as JSON, as its verdicts alone, or as the text of the terminal."""
    if as_json:
        click.echo(report.render("json"), nl=False)
        return
    from rich.console import Console

    from keras_pe.export.parity.reports.text import WIDTH, render_terminal, render_verdicts

    console, document = Console(), report.document()
    if not console.width:  # COLUMNS=0
        console = Console(width=WIDTH)
    if verbosity is Verbosity.QUIET:
        shown = render_verdicts(document, console.width)
    else:
        shown = render_terminal(document, console.width, complete=verbosity is Verbosity.VERBOSE)
    console.print(shown, soft_wrap=True)
