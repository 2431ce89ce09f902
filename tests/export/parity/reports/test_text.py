"""The terminal's text: the verdict first, every runtime, every remark, and names with control characters as codes."""

import dataclasses
import io

import pytest
from rich.console import Console

from keras_pe.display import printable
from keras_pe.export.parity.presentation.sentences import group_results
from keras_pe.export.parity.reports.text import render_terminal
from tests.export.parity.presentation.samples import ALL, ARTIFACT, FAILING, HOSTILE


def shown(name: str, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render_terminal(ALL[name].document(), width), soft_wrap=True)
    return console.file.getvalue()


@pytest.mark.parametrize("name", ALL)
def test_it_starts_with_the_verdict_and_shows_every_runtime(name):
    report, text = ALL[name], shown(name, 100)
    first = text.splitlines()[0]
    assert ("passed" if report.passed else "FAILED") in text[: text.index("Measured against")]
    assert first.startswith("Parity of ")
    for group in group_results(report.results):
        assert group.name in text  # "[all]" would vanish if it were read as markup


def test_the_cause_comes_first_then_the_proof_then_the_numbers():
    text = shown("failing", 100)
    places = [text.index(word) for word in ("cause:", "proof:", "worst:", "over floor")]
    assert places == sorted(places)


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_no_name_is_broken_at_any_width(width):
    text = shown("failing", width)
    for name in (*printable(HOSTILE).split(), ARTIFACT.rpartition("/")[2], "onnxruntime[basic]"):
        assert name in text
    too_long = [line for line in text.splitlines() if len(line) > width and "   " not in line.strip()]
    assert all(max(map(len, line.split())) > width / 3 for line in too_long), "only a table or a long name goes beyond"


def test_results_that_agree_are_said_once():
    levels = tuple(
        dataclasses.replace(FAILING.results[0], runtime=f"onnxruntime[{level}]")
        for level in ("disabled", "basic", "all")
    )
    report = dataclasses.replace(FAILING, results=levels)
    text = str(report)
    assert "onnxruntime, 3 levels" in text
    assert text.count("cause:") == 1
    assert text.count("interleaved fits") == 1
