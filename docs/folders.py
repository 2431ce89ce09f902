"""Writes two lists into docs/architecture.md: the imports between folders, and the content of each folder and file.

Usage: python docs/folders.py
"""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
LISTED = ("keras_pe", "export", "benchmarks", "docs")


def graph() -> dict[str, set[str]]:
    """Returns the imports between the folders of `keras_pe` and `keras_pe.export`, also through single files."""
    modules = grimp.build_graph("keras_pe", exclude_type_checking_imports=True)
    parts = modules.find_children("keras_pe") | modules.find_children("keras_pe.export")
    folders = {name for name in parts if modules.find_children(name)} - {"keras_pe.export"}

    def folder(module: str) -> str:
        return next((name for name in folders if f"{module}.".startswith(f"{name}.")), module)

    found: dict[str, set[str]] = {name: set() for name in folders}
    for name in modules.modules:
        found.setdefault(folder(name), set()).update(map(folder, modules.find_modules_directly_imported_by(name)))

    def reachable(name: str, seen: set[str]) -> set[str]:
        for each in found.get(name, set()) - seen - {name}:
            seen.add(each)
            if each not in folders:
                reachable(each, seen)
        return seen

    return {name: reachable(name, set()) & folders - {name} for name in folders}


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


def files() -> str:
    """Returns a heading for each folder with its content, and a line for each file with its content."""
    folders = sorted({path.parent for name in LISTED for path in (ROOT / name).rglob("*.py")})
    return "\n\n".join("\n".join(_lines_of(folder)) for folder in folders)


def _lines_of(folder: Path) -> Iterator[str]:
    yield f"### `{folder.relative_to(ROOT)}`\n"
    if own := _content(folder / "__init__.py"):
        yield f"{own}\n"
    for path in sorted(folder.glob("*.py")):
        if path.stem != "__init__":
            yield f"- `{path.stem}`: {_content(path)}"


def _content(path: Path) -> str | None:
    """Returns the first paragraph of a module's docstring, or None without a file or a docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) if path.exists() else None
    return " ".join(text.partition("\n\n")[0].split()) if text else None


def page() -> str:
    """Returns docs/architecture.md with the lists of this moment."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name, lines in (("imports", table()), ("files", files())):
        begin, end = f"<!-- {name}: written by docs/folders.py -->\n", f"\n<!-- end of {name} -->"
        text = re.sub(f"{begin}.*?{end}", lambda _, new=begin + lines + end: new, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.md").write_text(page())
