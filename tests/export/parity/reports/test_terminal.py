"""The terminal's table: every runtime, every remark, and names shown as they are."""

import io

import pytest
from rich.console import Console

from keras_pe.export.parity.reports.terminal import render
from tests.export.parity.reports.samples import ALL


@pytest.mark.parametrize("name", ALL)
def test_it_shows_every_runtime_and_ends_with_the_verdict(name):
    report = ALL[name]
    console = Console(file=io.StringIO(), width=200)
    console.print(render(report))
    shown = console.file.getvalue()
    for result in report.results:
        assert result.runtime in shown  # "[all]" would vanish if it were read as markup
    assert ("FAILED measured against" in shown) is not report.passed
    assert ("passed measured against" in shown) is report.passed
    for layer in [layer for result in report.results for layer in result.layers][2:]:
        assert layer.layer in shown
