"""Structure of the source: its modules, their imports, and their folders."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def modules() -> dict[str, Path]:
    """Returns every module of the two folders, by import name."""
    found = {}
    for folder, name in ((ROOT / "keras_pe", "keras_pe"), (ROOT / "export", "keras_pe.export")):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if folder.name == "keras_pe" and parts[0] == "export":
                continue
            found[".".join([name, *parts]).removesuffix(".__init__")] = path
    return found


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Returns every node of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> frozenset[str]:
    """Returns the modules that a file imports, also inside functions; those for type checkers aside.

    An import of this project is the module that is imported from; an import of others is the full name, a function's
    too.
    """
    for_checkers = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in node.body
    }
    known = modules()
    found = set()
    for node in nodes(path):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known or node.module not in known else node.module for name in full}
    return frozenset(found)


def own_imports(path: Path) -> set[str]:
    """Returns the modules of this project among `imports`."""
    return set(imports(path) & modules().keys())


def packages() -> list[str]:
    """Returns the modules that are folders."""
    return [name for name, path in modules().items() if path.name == "__init__.py"]


def siblings(package: str) -> dict[str, set[str]]:
    """Returns the files and folders of a package, and which of the others each imports. A folder counts as one.

    The package's own `__init__.py` goes by the name of the package.
    """

    def part(module: str) -> str | None:
        if module == package:
            return package
        inside = module.removeprefix(f"{package}.")
        return None if inside == module else f"{package}.{inside.partition('.')[0]}"

    found: dict[str, set[str]] = defaultdict(set)
    for name, path in modules().items():
        if importer := part(name):
            found[importer] |= {imported for each in own_imports(path) if (imported := part(each))} - {importer}
    return dict(found)
