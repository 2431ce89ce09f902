"""The report of a data set as one HTML page that loads nothing: style and pictures are in it."""

import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from keras_pe.export.parity import reports
from keras_pe.export.parity.dataset.reports import pictures, tables, text
from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult


@dataclass(frozen=True)
class _Picture:
    title: str
    svg: Markup


def render(report: DatasetReport) -> str:
    """Returns the page. Failing runtimes are open; where all pass, the first one is."""
    source = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    style = importlib.resources.files(reports).joinpath("style.css").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source).render(
        report=report,
        style=Markup(style),
        heading=tables.heading(report),
        remarks=text.remarks(report),
        header=text.HEADER,
        rows=[text.row(result) for result in report.results],
        tables=[list(tables.tables(result)) for result in report.results],
        pictures=[list(_pictures(result)) for result in report.results],
    )


def _pictures(result: DatasetResult) -> Iterator[_Picture]:
    for output in result.outputs:
        for title, svg in (
            (f"Errors of output {output.output!r}", pictures.draw_errors(output)),
            (f"Margins of the decisions by output {output.output!r}", pictures.draw_margins(output)),
        ):
            if svg:
                yield _Picture(title, Markup(svg))
