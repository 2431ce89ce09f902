"""Renders a document as Markdown, for a pull request or the summary of a CI run."""

import re
from collections.abc import Iterable, Iterator

from keras_pe.display import printable
from keras_pe.export.parity.reports.document import Document, Mark, Outcome, TextTable

_INLINE = re.compile(r"([\\`*_\[\]|~&$])")
_OPENING = re.compile(r"^(\d*)([-+#.)])")  # at the start of a line these make a list or a heading


def render(document: Document) -> str:
    """Returns what failed and why, and every table; of a table with an excerpt that alone."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"# {_text(document.title)}: {Outcome.of(document.passed).value}"
    yield from ("", _text(" ".join(document.summary)))
    for part in document.parts:
        if not part.passed:
            yield from ("", f"## {_text(part.title)}: {Outcome.FAILED.value}", "")
            yield from (f"- **{each.label}**: {_text(each.text)}" for each in part.statements)
    yield from _table(document.overview)
    for table in document.tables:
        yield from _table(table)
    if document.remarks:
        yield from ("", "## Remarks", "")
        yield from (_item(each.label, each.text) for each in document.remarks)
    for part in document.parts:
        for table in part.tables:
            yield from _table(table, f"{table.title} of {part.title}")
    for table in document.appendix:
        yield from _table(table)


def _item(label: str, text: str) -> str:
    return f"- **{label}**: {_text(text)}" if label else "- " + _OPENING.sub(r"\1\\\2", _text(text))


def _table(table: TextTable, title: str | None = None) -> Iterator[str]:
    """Yields a section with a table, nothing where it has no rows."""
    if not table.short:
        return
    yield from ("", f"## {_text(title or table.title)}", "")
    yield _row(table.header)
    yield f"| {' | '.join('---' for _ in table.header)} |"
    yield from map(_row, table.short)
    if table.note:
        yield from ("", _text(table.note))


def _row(cells: Iterable[str | Mark]) -> str:
    return f"| {' | '.join(_text(str(cell)) for cell in cells)} |"


def _text(value: str) -> str:
    """Returns a text that shows as itself: on one line, and without a character that Markdown or HTML reads."""
    return _INLINE.sub(r"\\\1", printable(" ".join(value.split()))).replace("<", "&lt;").replace(">", "&gt;")
