"""Prints tables: folded in a terminal, and uncut in a pipe or a log."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keras_pe.display import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_UNBOUNDED = 10_000  # columns: no name or path is longer


def whole_console() -> "Console":
    """Returns a console whose lines are as wide as the terminal, or as `COLUMNS` says, and otherwise without an end."""
    from rich.console import Console

    console = Console()
    is_bounded = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return console if is_bounded and console.width else Console(width=_UNBOUNDED)  # In a width of 0 a table is lost.


def text_table(*header: str, rows: Iterable[Sequence[str]] = (), title: str | None = None) -> "Table":
    """Returns a table of texts that are shown as they are, brackets included. A text that is too long is folded.

    Args:
        header: The names of the columns.
        rows: The texts of the cells.
        title: The line above the table.
    """
    from rich.table import Column, Table

    table = Table(*(Column(name, overflow="fold") for name in header), title=title, show_header=any(header))
    for row in rows:
        add_row(table, row)
    return table


def add_row(table: "Table", row: Sequence[str]) -> None:
    """Adds a row of texts. Brackets are shown as they are, and characters that control a terminal by their codes."""
    from rich.text import Text

    table.add_row(*(Text(printable(text)) for text in row))
