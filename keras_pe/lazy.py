"""Public names that are imported when they are first asked for, because what they come from is slow to import."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, public: Sequence[str], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package.

    Args:
        package: The package's `__name__`.
        public: Its `__all__`: what `dir` shows, and a star imports.
        modules: For each public name that is not imported yet the module it comes from, or which it is.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        return module if module.__name__ == f"{package}.{name}" else getattr(module, name)

    def show() -> list[str]:
        own = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*public, *own})

    return find, show
