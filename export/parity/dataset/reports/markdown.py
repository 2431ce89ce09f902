"""The report of a data set as Markdown, for a pull request or a summary of a CI run."""

from collections.abc import Iterator

from keras_pe.export.parity.dataset.reports import tables, text
from keras_pe.export.parity.dataset.results import DatasetReport
from keras_pe.export.parity.reports.escaping import markdown_item, markdown_table, markdown_text


def render(report: DatasetReport) -> str:
    """Returns the report with a table for the runtimes, and for each its outputs, changes and worst rows."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: DatasetReport) -> Iterator[str]:
    verdict = "passed" if report.passed else "FAILED"
    yield f"# {markdown_text(f'{report.data} through {report.model}')}: {verdict}"
    yield ""
    yield markdown_text(tables.heading(report))
    yield from markdown_table("Runtimes", text.HEADER, (tuple(text.row(result)) for result in report.results))
    yield from ("", "## Verdict", "")
    yield from (markdown_item(line) for line in text.remarks(report))
    for result in report.results:
        for title, header, rows in tables.tables(result):
            yield from markdown_table(f"{title} of {markdown_text(result.runtime)}", header, rows)
    yield from markdown_table("Versions", ("package", "version"), list(report.versions.items()))
