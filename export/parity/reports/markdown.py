"""A report as Markdown, for a pull request or a summary of a CI run."""

import re
from collections.abc import Iterable, Iterator

from keras_pe.export.parity.reports import cells, text
from keras_pe.export.parity.reports.groups import group_results
from keras_pe.export.parity.results import ParityReport

_INLINE = re.compile(r"([\\`*_\[\]|~&$])")
_OPENING = re.compile(r"^(\d*)([-+#.)])")  # at the start of a line these make a list or a heading


def render(report: ParityReport) -> str:
    """Returns the report with a table for the runtimes, the failures, the layers, the cases and the versions."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ParityReport) -> Iterator[str]:
    yield f"# Parity of {_escape(report.model)}: {'passed' if report.passed else 'FAILED'}"
    yield ""
    counted = f"{report.compared:,} values compared in {report.seconds:.1f} s."
    yield f"Measured against {_escape(report.reference)}. {counted}"
    groups = group_results(report)
    failed = [group for group in groups if not group.passed]
    for group in failed:
        yield from ("", f"## {_escape(group.name)} on {_escape(group.artifact)}: FAILED", "")
        for label, sentence in text.statements(report, group):
            yield f"- **{label}**: {_escape(sentence)}"
    yield from _table("Runtimes", text.HEADER, map(text.row, groups))
    remarks = text.remarks(report)
    if remarks:
        yield from ("", "## Remarks", "")
        yield from ("- " + _OPENING.sub(r"\1\\\2", _escape(remark)) for remark in remarks)
    for group in failed:
        wrong = [row for row in cells.comparison_rows(group.first) if row[3] == "FAILED"]
        yield from _table(f"Failures of {_escape(group.name)}", cells.COMPARISON_HEADER, wrong)
        yield from _table(f"Layers in {_escape(group.name)}", cells.LAYER_HEADER, cells.layer_rows(group.first))
    yield from _table("Cases", cells.CASE_HEADER, cells.case_rows(report))
    versions = [*report.versions.items(), ("seed of the inputs", str(report.seed))]
    yield from _table("Versions", ("package", "version"), versions)


def _table(title: str, header: cells.Row, rows: Iterable[cells.Row]) -> Iterator[str]:
    """Returns a section with a table, or nothing where there are no rows."""
    rows = list(rows)
    if not rows:
        return
    yield from ("", f"## {title}", "")
    yield _row(header)
    yield _row(["---"] * len(header), escape=False)
    yield from map(_row, rows)


def _row(values: Iterable[str], escape: bool = True) -> str:
    return f"| {' | '.join(_escape(value) if escape else value for value in values)} |"


def _escape(value: str) -> str:
    """Returns a text that shows as itself: on one line, and without a character that Markdown or HTML reads."""
    return _INLINE.sub(r"\\\1", " ".join(value.split())).replace("<", "&lt;").replace(">", "&gt;")
