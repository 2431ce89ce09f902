"""The report of a data set as tables for the terminal."""

from collections.abc import Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from keras_pe.export.parity.dataset.reports import tables, text
from keras_pe.export.parity.dataset.results import DatasetReport

_YIELDING = ("artifact", "place", "expected", "actual")


def render(report: DatasetReport) -> Group:
    """Returns what rich prints: the runtimes, their outputs where they fail, what is wrong, and the verdict."""
    styles = ["" if result.passed else "red" for result in report.results]
    parts: list[Table | Text] = [
        _table(f"{report.data} through {report.model}", text.HEADER, map(text.row, report.results), styles)
    ]
    for result in report.results:
        if not result.passed:
            for title, header, rows in tables.tables(result):
                parts.append(_table(f"{title} of {result.runtime}", header, rows, [""] * len(rows)))
    parts += [Text(remark) for remark in text.remarks(report)]
    verdict = Text("passed", "bold green") if report.passed else Text("FAILED", "bold red")
    return Group(*parts, verdict.append(f" {tables.heading(report)}", "not bold default"))


def _table(title: str, header: tables.Row, rows: Iterable[Iterable[str]], styles: Iterable[str]) -> Table:
    """Returns a table whose texts are shown as they are, not read as markup."""
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in header:  # where it is narrow, names give way and not the figures
        yields = name in _YIELDING
        table.add_column(name.replace(" ", "\n"), no_wrap=not yields, overflow="fold", min_width=len(name) * yields)
    for row, style in zip(rows, styles, strict=True):
        table.add_row(*map(Text, row), style=style)
    return table
