"""A report as Markdown, for a pull request or a summary of a CI run."""

from collections.abc import Iterator

from keras_pe.export.parity.reports import cells, text
from keras_pe.export.parity.reports.escaping import markdown_item, markdown_table, markdown_text
from keras_pe.export.parity.reports.groups import group_results
from keras_pe.export.results import ParityReport


def render(report: ParityReport) -> str:
    """Returns the report with a table for the runtimes, the failures, the layers, the cases and the versions."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ParityReport) -> Iterator[str]:
    yield f"# Parity of {markdown_text(report.model)}: {'passed' if report.passed else 'FAILED'}"
    yield ""
    counted = f"{report.compared:,} values compared in {report.seconds:.1f} s."
    yield f"Measured against {markdown_text(report.reference)}. {counted}"
    groups = group_results(report)
    failed = [group for group in groups if not group.passed]
    for group in failed:
        yield from ("", f"## {markdown_text(group.name)} on {markdown_text(group.artifact)}: FAILED", "")
        for label, sentence in text.statements(report, group):
            yield f"- **{label}**: {markdown_text(sentence)}"
    yield from markdown_table("Runtimes", text.HEADER, map(text.row, groups))
    remarks = text.remarks(report)
    if remarks:
        yield from ("", "## Remarks", "")
        yield from map(markdown_item, remarks)
    for group in failed:
        wrong = [row for row in cells.comparison_rows(group.first) if row[3] == "FAILED"]
        yield from markdown_table(f"Failures of {markdown_text(group.name)}", cells.COMPARISON_HEADER, wrong)
        yield from markdown_table(
            f"Layers in {markdown_text(group.name)}", cells.LAYER_HEADER, cells.layer_rows(group.first)
        )
    yield from markdown_table("Cases", cells.CASE_HEADER, cells.case_rows(report))
    versions = [*report.versions.items(), ("seed of the inputs", str(report.seed))]
    yield from markdown_table("Versions", ("package", "version"), versions)
