"""Draws the rooms and what they import from each other, as a Mermaid chart in docs/architecture.md.

Usage: python docs/rooms.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- rooms: written by docs/rooms.py -->", "<!-- end of rooms -->"


def edges() -> set[tuple[str, str]]:
    """Returns which room imports from which."""
    from tests.source_tree import modules, own_imports, room

    pairs = {(room(name), room(each)) for name, path in modules().items() for each in own_imports(path)}
    return {(importer, imported) for importer, imported in pairs if importer != imported}


def reduced(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns the pairs that follow from no others: what is imported by way of a third room is not drawn again."""
    targets = {importer: {b for a, b in pairs if a == importer} for importer, _ in pairs}

    def reachable(start: str) -> set[str]:
        return set().union(*({each} | reachable(each) for each in targets.get(start, ())))

    return {(a, b) for a, b in pairs if not any(b in reachable(c) for c in targets[a] - {b})}


def chart() -> str:
    """Returns the chart: an arrow points to what is imported."""
    from tests.source_tree import ROOMS

    number = {room: f"r{index}" for index, room in enumerate(ROOMS)}
    lines = ["```mermaid", "flowchart BT"]
    lines += [f'  {key}["{room}"]' for room, key in number.items()]
    drawn = sorted(reduced(edges()), key=lambda pair: [list(number).index(room) for room in pair])
    lines += [f"  {number[importer]} --> {number[imported]}" for importer, imported in drawn]
    return "\n".join([*lines, "```"])


def page() -> str:
    """Returns docs/architecture.md with the chart of this moment."""
    before, _, rest = (ROOT / "docs" / "architecture.md").read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{chart()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    (ROOT / "docs" / "architecture.md").write_text(page())
