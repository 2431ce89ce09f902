"""Markdown: tables that stay tables whatever the names are."""

import re

import pytest

from tests.export.parity.presentation.samples import ALL, FAILING, PASSING


def tables(text: str) -> dict[str, list[list[str]]]:
    """Returns the cells of each table, under the title above it; a cell ends at a bar that is not escaped."""
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("|"):
            found.setdefault(title, []).append([c.strip() for c in re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]])
    return found


@pytest.mark.parametrize("name", ALL)
def test_every_row_has_as_many_cells_as_its_header(name):
    found = tables(ALL[name].render("markdown"))
    assert "Cases" in found
    for rows in found.values():
        assert len(rows) > 2
        assert {len(row) for row in rows} == {len(rows[0])}
        assert set(rows[1]) == {"---"}


def test_the_runtimes_and_their_verdicts_stand_in_the_first_table():
    rows = tables(PASSING.render("markdown"))["Runtimes"]
    assert [row[0] for row in rows[2:]] == [r"onnxruntime\[all\]", "litert"]
    assert [row[2] for row in rows[2:]] == ["passed", "passed"]
    assert "# Parity of encoder: passed" in PASSING.render("markdown")


def test_a_hostile_name_is_text_and_no_markup():
    text = FAILING.render("markdown")
    assert "<" not in text
    assert re.search(r"(?<!\\)[`$\[]", text) is None
    assert r"x\$\\ # h" in text  # the backslash is escaped too, and the line goes on
    assert text.count("\n# ") == 0


def test_the_failures_are_shown_and_the_layers_at_fault_with_the_one_before_each():
    found = tables(FAILING.render("markdown"))
    (row,) = found[r"Every output of every case of onnxruntime\[all\] on encoder.onnx"][2:]
    assert row[3] == "FAILED"
    assert "5.0e-01" in row
    layers = found[r"Layers of onnxruntime\[all\] on encoder.onnx"][2:]
    assert [row[3] for row in layers] == ["agrees", "originates here"]
    assert "4 layers in all: 1 agree, 1 at fault, 2 after them" in FAILING.render("markdown")
