"""The packages of exporters: installed versions, Keras' backend, and faster imports."""

import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_LEAST = {"keras": (3, 13)}  # `watch/keras_internals` replaces functions that older versions lack


def require(caller: str, *packages: str, extra: str = "export") -> None:
    """Raises ImportError unless the packages are installed and new enough. The message has the command that helps.

    The packages are not imported. Only packages with a version in `_LEAST` have to be new enough.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise ImportError(
                    f"{caller}() needs the package '{package}'. Install it with: pip install 'keras-pe[{extra}]'"
                ) from error
        elif package in _LEAST:
            version, least = installed_version(package) or "", ".".join(map(str, _LEAST[package]))
            if tuple(map(int, re.findall(r"\d+", version)[:2])) < _LEAST[package]:
                raise ImportError(
                    f"{caller}() needs {package} {least} or later. Received: {package} {version}. "
                    f"Install it with: pip install 'keras-pe[{extra}]'"
                )


def installed_version(package: str) -> str | None:
    """Returns the version of an installed package; None if the package is not installed.

    Args:
        package: The name of the package in imports or in its distribution. The names may differ: distributions of
            TensorFlow are called "tensorflow", "tensorflow-cpu" and "tf-nightly".
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        others = importlib.metadata.packages_distributions().get(package.replace("-", "_"), ())
        return next((importlib.metadata.version(name) for name in others if name != package), None)


def keras_backend() -> str:
    """Returns the backend of Keras. If Keras is not imported, returns the backend that an import would choose."""
    if "keras" in sys.modules:
        return str(sys.modules["keras"].backend.backend())
    if named := os.environ.get("KERAS_BACKEND"):
        return named
    folder = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    try:
        return str(json.loads((folder / "keras.json").read_text())["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"


@contextlib.contextmanager
def lasting_imports() -> Iterator[None]:
    """A context whose imports the garbage collector ignores until the process ends.

    Scanning the imported objects takes a quarter of the time of TensorFlow's import, and again as much when the process
    ends. Use this context only in subprocesses of this package, before they compute anything.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def deferred_import(name: str) -> Iterator[None]:
    """A context in which the import of a package is deferred until a function of the package is called.

    The imported modules may store functions of the package, but must not call them. If the package is imported already,
    the context has no effect.
    """
    module = _Deferred(name)
    is_deferred = sys.modules.setdefault(name, module) is module
    try:
        yield
    finally:
        module.is_importing = False
        if is_deferred:
            del sys.modules[name]


class _Deferred(ModuleType):
    """A package that is imported when one of its functions is called, or later when an attribute is read."""

    is_importing = True

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)

        def read() -> Any:
            return getattr(importlib.import_module(self.__name__), attribute)

        return (lambda *args, **kwargs: read()(*args, **kwargs)) if self.is_importing else read()
