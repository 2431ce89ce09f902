"""Tables of the command line: nothing is cut in a pipe or a log, and names stand as they are."""

import io

import pytest
from rich.console import Console

from keras_pe.cli.tables import add_row, text_table, whole_console

LONG = "folder/" * 40 + "model[all].onnx"
NAMES = [LONG, "[bold]x[/bold]", "a[1]", "größe/名前", "with spaces in it", "[/]", "x" * 300]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", ["", "0"])
def test_a_pipe_gets_each_cell_on_one_line(
    name: str, columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    whole_console().print(text_table("path", "format", rows=[(name, "onnx")]))
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [40, 80])
def test_a_terminal_folds_what_is_too_long_and_cuts_nothing(name: str, width: int) -> None:
    table = text_table("path", "format")
    add_row(table, (name, "onnx"))
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    shown = "".join(line.split("│")[1].strip() for line in out.getvalue().splitlines() if line.startswith("│"))
    assert shown.replace(" ", "") == name.replace(" ", "")
    assert "…" not in out.getvalue()


def test_the_width_that_a_user_asks_for_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    whole_console().print(text_table("path", rows=[(LONG,)]))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
