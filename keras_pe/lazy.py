"""Public names that are imported when they are first asked for, because what they come from is slow to import."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package.

    Args:
        package: The package's `__name__`.
        modules: For each public name the module it comes from, or which it is.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        return module if module.__name__ == f"{package}.{name}" else getattr(module, name)

    return find
