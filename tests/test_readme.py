"""The form of the README: short, with two commands, and whole on an index of packages."""

import re
import subprocess
import sys
from pathlib import Path

from keras_pe.conventions import CONVENTIONS
from tests.pages import blocks, words
from tests.source_tree import ROOT

README = (ROOT / "README.md").read_text()


def test_it_is_read_in_three_minutes() -> None:
    assert len(README.splitlines()) <= 100


def test_the_first_two_sh_blocks_are_one_line_each_and_install_what_was_tried() -> None:
    commands = [block.code for block in blocks(README, "sh")]
    assert len(commands) == 2
    assert [command.count("\n") for command in commands] == [1, 1]
    assert all(command.startswith("python -m pip install -c constraints.txt ") for command in commands)


def test_it_counts_the_conventions_that_there_are() -> None:
    (count,) = re.findall(r"one of (\d+) named\s+conventions", README)
    assert int(count) == len(CONVENTIONS)


def test_the_refusal_that_is_shown_is_the_one_that_its_page_runs() -> None:
    (shown,) = blocks(README, "text")
    (printed,) = blocks((ROOT / "docs" / "how-to" / "read-a-refusal.md").read_text(), "text")
    assert words(shown.code) == words(printed.code)


def test_every_script_and_file_that_is_named_is_there() -> None:
    named = re.findall(r"(?:benchmarks|tests|notebooks|docs|keras_pe)/[\w./-]+\w", README)
    assert named
    for path in named:
        assert (ROOT / path).exists() or path == "docs/_build/html", path


def test_on_an_index_no_link_is_relative(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text(README)
    command = [sys.executable, ROOT / ".ci" / "absolute_links.py", copy, "https://example.org/owner/keras-pe", "v1"]
    subprocess.run(command, check=True)
    links = re.findall(r"\]\(([^)]+)\)", copy.read_text())
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://example.org/owner/keras-pe/")] == []
    assert "https://example.org/owner/keras-pe/raw/v1/docs/accuracy.png" in links
    assert "https://example.org/owner/keras-pe/blob/v1/docs/why.md#what-it-leaves-out" in links
