"""Renders a document as text for a terminal: the verdict, the failures with their causes, and the tables."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from keras_pe.display import printable
from keras_pe.export.parity.reports.document import Document, Mark, Outcome, Part, TextTable

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 100

# A piece of a line, and how a terminal shows it.
_Piece = tuple[str, str]
_Line = list[_Piece]

_STYLES = {Outcome.PASSED: "bold green", Outcome.FAILED: "bold red"}


def render_text(document: Document, width: int = WIDTH) -> str:
    """Returns the document in lines of at most so many columns; only a name that is longer goes beyond."""
    return _join(_lines(document, max(width, 40)))


def render_terminal(document: Document, width: int = WIDTH, *, complete: bool = False) -> "Text":
    """Returns what rich prints: the same, with the verdicts in color and the labels in bold.

    Args:
        document: The report.
        width: Columns of the terminal.
        complete: Whether to add the parts that passed, and every row of every table.
    """
    return _color(_lines(document, max(width, 40), complete))


def render_verdicts(document: Document, width: int = WIDTH) -> "Text":
    """Returns what rich prints: the verdict of the document, and of each part that failed."""
    titles = [(document.title, document.passed), *((part.title, False) for part in document.parts if not part.passed)]
    return _color(line for title in titles for line in _heading(*title, max(width, 40)))


def _color(lines: Iterable[_Line]) -> "Text":
    from rich.text import Text

    shown = Text(no_wrap=True, overflow="ignore")
    for line in lines:
        shown.append_text(Text.assemble(*line, "\n"))
    shown.rstrip()
    return shown


def render_table(table: TextTable) -> str:
    """Returns a table with its columns under each other, however wide."""
    return _join(_align([table.header, *table.short]))


def _lines(document: Document, width: int, complete: bool = False) -> Iterator[_Line]:
    yield from _heading(document.title, document.passed, width)
    for sentence in document.summary:
        yield from _wrap("", sentence, width)
    for part in document.parts:
        if complete or not part.passed:
            yield from _part(part, width, complete)
    for table in (document.overview, *document.tables):
        for block in _narrow([table.header, *table.short], width) if table.rows else ():
            yield from ([], *_align(block))
    for remark in document.remarks:
        yield from _wrap(f"{remark.label}: " if remark.label else "", remark.text, width)


def _join(lines: Iterable[_Line]) -> str:
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def _part(part: Part, width: int, complete: bool) -> Iterator[_Line]:
    yield []
    yield from _heading(part.title, part.passed, width)
    longest = max((len(statement.label) for statement in part.statements), default=0)
    for statement in part.statements:
        yield from _wrap(f"  {statement.label}: ".ljust(longest + 4), statement.text, width)
    for table in part.tables:
        rows = table.rows if complete else () if table.wide else table.short
        if rows:
            for block in _narrow([table.header, *rows], width - 2):
                yield from ([("  ", ""), *line] for line in _align(block))
            if table.note:
                yield from _wrap("  ", table.note, width)


def _heading(title: str, passed: bool, width: int) -> Iterator[_Line]:
    outcome = Outcome.of(passed)
    *first, last = _fill(f"{title}: {outcome.value}", width, "")
    yield from ([(line, "")] for line in first)
    yield [(last.removesuffix(outcome.value), ""), (outcome.value, _STYLES[outcome])]


def _wrap(label: str, text: str, width: int) -> Iterator[_Line]:
    """Yields a text in lines, the first behind its label and the others below it."""
    indent = " " * len(label)
    first, *others = _fill(text, width, indent) or [""]
    yield [(label, "bold"), (first.removeprefix(indent), "")]
    yield from ([(line, "")] for line in others)


def _fill(text: str, width: int, indent: str) -> list[str]:
    """Returns a text in lines that break no word and no name."""
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _align(rows: Sequence[Sequence[str | Mark]]) -> Iterator[_Line]:
    """Yields rows as lines with their cells under each other."""
    widths = [max(len(_shown(cells[i])) for cells in rows) for i in range(len(rows[0]))]
    for cells in rows:
        yield [piece for cell, width in zip(cells, widths, strict=True) for piece in _cell(cell, width)][:-1]


def _cell(cell: str | Mark, width: int) -> _Line:
    style, shown = _STYLES.get(cell.outcome, "") if isinstance(cell, Mark) else "", _shown(cell)
    return [(shown, style), (" " * (width - len(shown) + 2), "")]


def _shown(cell: str | Mark) -> str:
    """Returns a cell on one line."""
    return printable(" ".join(str(cell).split()))


def _narrow(rows: Sequence[Sequence[str | Mark]], width: int) -> list[list[tuple[str | Mark, ...]]]:
    """Returns the rows in blocks of as many columns as the width holds, each with the first column again."""
    widths = [max(len(_shown(row[column])) for row in rows) + 2 for column in range(len(rows[0]))]
    blocks: list[list[int]] = []
    for column in range(1, len(widths)):
        if not blocks or widths[0] + sum(widths[c] for c in blocks[-1]) + widths[column] > width + 2:
            blocks.append([])
        blocks[-1].append(column)
    return [[(row[0], *(row[column] for column in block)) for row in rows] for block in blocks]
