"""The pages that people read, and the code that stands on them."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.source_tree import ROOT

_BLOCK = re.compile(r"^```(?:\{code-cell\} ?)?(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NEEDS = re.compile(r"\A---\n(?:.*\n)*?needs: (\S+)\n", re.MULTILINE)

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


class Block(NamedTuple):
    """A fenced block: its language, and what stands in it."""

    language: str
    code: str


def blocks(text: str, language: str = "") -> list[Block]:
    """Returns the fenced blocks of a text in order, all or those of a language."""
    found = [Block(*match) for match in _BLOCK.findall(text)]
    return [block for block in found if language in ("", block.language)]


def needs(page: Path) -> str | None:
    """Returns the runtime outside this Python without which a page's code does not run; None for most pages."""
    match = _NEEDS.match(page.read_text("utf-8"))
    return match[1] if match else None
