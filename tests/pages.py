"""The pages that people read, and the code that stands on them."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from tests.source_tree import ROOT

# Whatever a page can fence with, so that no block is passed over: of any length, indented, without a language.
_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}|:{3,})(?:\{code(?:-\w+)?\} *)?(?P<language>\S*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence) *$",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[+-]\d+)?")
_NEEDS = re.compile(r"\A---\n(?:.*\n)*?needs-(runtime|package): (\S+)\n", re.MULTILINE)

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


class Block(NamedTuple):
    """A fenced block: its language, or the directive in braces, and what stands in it."""

    language: str
    code: str


def blocks(text: str, language: str = "") -> list[Block]:
    """Returns the fenced blocks of a text in order, all or those of a language."""
    found = [Block(match["language"], textwrap.dedent(match["code"])) for match in _BLOCK.finditer(text)]
    return [block for block in found if language in ("", block.language)]


def needs(page: Path) -> tuple[str, str] | None:
    """Returns what a page's code needs to run, "runtime" or "package" and its name; None for most pages."""
    match = _NEEDS.match(page.read_text("utf-8"))
    return (match[1], match[2]) if match else None


def words(text: str) -> list[str]:
    """Returns the words of what was printed, each figure as 0: what Keras rounds differs between processors."""
    return _NUMBER.sub("0", text).split()
