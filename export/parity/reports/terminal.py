"""A report as a table for the terminal."""

from collections.abc import Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from keras_pe.export.parity.reports import cells, text
from keras_pe.export.parity.results import ParityReport

_YIELDING = ("artifact", "tensor")


def render(report: ParityReport) -> Group:
    """Returns what rich prints: the runtimes, what is wrong, where the layers part, and the verdict."""
    styles = ["" if result.passed else "red" for result in report.results]
    parts: list[Table | Text] = [
        _table(f"parity of {report.model}", text.HEADER, map(text.row, report.results), styles)
    ]
    for result in report.results:
        if result.layers:
            styles = ["red" if layer.parted else "" for layer in result.layers]
            parts.append(_table(f"layers in {result.runtime}", cells.LAYER_HEADER, cells.layer_rows(result), styles))
    parts += [Text(remark) for remark in text.remarks(report)]
    basis = f" measured against {report.basis}, {report.compared:,} values, {report.seconds:.1f} s"
    verdict = Text("passed", "bold green") if report.passed else Text("FAILED", "bold red")
    return Group(*parts, verdict.append(basis, "not bold default"))


def _table(title: str, header: cells.Row, rows: Iterable[Iterable[str]], styles: Iterable[str]) -> Table:
    """Returns a table whose texts are shown as they are, not read as markup."""
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in header:  # where it is narrow, the names of files give way and not the figures
        yields = name in _YIELDING
        table.add_column(name.replace(" ", "\n"), no_wrap=not yields, overflow="fold", min_width=len(name) * yields)
    for row, style in zip(rows, styles, strict=True):
        table.add_row(*map(Text, row), style=style)
    return table
