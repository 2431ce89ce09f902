"""Texts of any content in the languages of reports: Markdown and XML."""

import re
from collections.abc import Iterable, Iterator

_INLINE = re.compile(r"([\\`*_\[\]|~&$])")
_OPENING = re.compile(r"^(\d*)([-+#.)])")  # at the start of a line these make a list or a heading

# What XML 1.0 has no way to write.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown_text(value: str) -> str:
    """Returns a text that shows as itself: on one line, and without a character that Markdown or HTML reads."""
    return _INLINE.sub(r"\\\1", " ".join(value.split())).replace("<", "&lt;").replace(">", "&gt;")


def markdown_item(value: str) -> str:
    """Returns a text as an item of a list."""
    return "- " + _OPENING.sub(r"\1\\\2", markdown_text(value))


def markdown_table(title: str, header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Returns the lines of a section with a table, none where there are no rows. The title is Markdown already."""
    rows, header = list(rows), list(header)
    if not rows:
        return
    yield from ("", f"## {title}", "")
    yield _line(map(markdown_text, header))
    yield _line(["---"] * len(header))
    for row in rows:
        yield _line(map(markdown_text, row))


def xml_text(value: str) -> str:
    """Returns a text without the characters that XML cannot write."""
    return _ILLEGAL.sub("\ufffd", value)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
