"""Lists the folders of the package and what they import from each other, as a table in docs/architecture.md.

Usage: python docs/folders.py
"""

import sys
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- imports: written by docs/folders.py -->", "<!-- end of imports -->"


def graph() -> dict[str, set[str]]:
    """Returns the imports between the folders of `keras_pe` and `keras_pe.export`, also through single files."""
    from tests.source_tree import modules, own_imports, packages

    folders = [name for name in packages() if name.count(".") - name.startswith("keras_pe.export.") == 1]
    folders.remove("keras_pe.export")

    def folder(module: str) -> str:
        return next((name for name in folders if f"{module}.".startswith(f"{name}.")), module)

    found: dict[str, set[str]] = {name: set() for name in folders}
    for name, path in modules().items():
        found.setdefault(folder(name), set()).update(map(folder, own_imports(path)))

    def reachable(name: str, seen: set[str]) -> set[str]:
        for each in found.get(name, set()) - seen - {name}:
            seen.add(each)
            if each not in folders:
                reachable(each, seen)
        return seen

    return {name: reachable(name, set()) & set(folders) - {name} for name in folders}


def without_transitive(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns the imports without those that follow from a third folder."""

    def below(name: str) -> set[str]:
        return graph[name].union(*(below(each) for each in graph[name]))

    return {name: graph[name].difference(*(below(each) for each in graph[name])) for name in graph}


def table() -> str:
    """Returns the table in topological order: a folder imports only folders above it."""
    edges = graph()
    order = list(TopologicalSorter({name: sorted(edges[name]) for name in sorted(edges)}).static_order())
    direct = without_transitive(edges)
    lines = ["| folder | imports |", "| --- | --- |"]
    lines += [
        f"| {_folder(name)} | {', '.join(map(_folder, sorted(direct[name], key=order.index))) or '-'} |"
        for name in order
    ]
    return "\n".join(lines)


def _folder(name: str) -> str:
    return f"`{name.removeprefix('keras_pe.').replace('.', '/')}`"


def page() -> str:
    """Returns docs/architecture.md with the table of this moment."""
    before, _, rest = (ROOT / "docs" / "architecture.md").read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    (ROOT / "docs" / "architecture.md").write_text(page())
