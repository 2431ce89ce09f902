"""Imports public names at their first use, since their modules are slow to import."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach_stub(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns the `__getattr__`, the `__dir__` and the `__all__` of a module with the names of its type stub.

    The stub stands beside the module. It imports each public name from the module that defines it, and is the only
    list of these names: type checkers read it too.

    Args:
        module: The module's `__name__`.
        file: The module's `__file__`.
    """
    sources: dict[str, str] = {}
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            sources |= {alias.name: str(node.module) for alias in node.names}

    def find(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if sources[name] == module:
            return importlib.import_module(f"{module}.{name}")
        return getattr(importlib.import_module(sources[name]), name)

    def show() -> list[str]:
        own = (name for name in vars(sys.modules[module]) if name.startswith("__"))
        return sorted({*sources, *own})

    return find, show, sorted(sources)
