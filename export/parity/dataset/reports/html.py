"""The report of a data set as one HTML page that loads nothing."""

from collections.abc import Iterator

from markupsafe import Markup

from keras_pe.export.parity.dataset.reports import pictures, tables, text
from keras_pe.export.parity.dataset.results import DatasetReport, DatasetResult
from keras_pe.export.parity.reports.pages import Picture, render_page


def render(report: DatasetReport) -> str:
    """Returns the page. Failing runtimes are open; where all pass, the first one is."""
    return render_page(
        __package__,
        title=f"{report.data} through {report.model}",
        heading=tables.heading(report),
        report=report,
        remarks=text.remarks(report),
        header=text.HEADER,
        rows=[text.row(result) for result in report.results],
        tables=[list(tables.tables(result)) for result in report.results],
        pictures=[list(_pictures(result)) for result in report.results],
    )


def _pictures(result: DatasetResult) -> Iterator[Picture]:
    for output in result.outputs:
        for title, svg in (
            (f"Errors of output {output.output!r}", pictures.draw_errors(output)),
            (f"Margins of the decisions by output {output.output!r}", pictures.draw_margins(output)),
        ):
            if svg:
                yield Picture(title, Markup(svg))
