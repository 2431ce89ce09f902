"""What an exporter needs: packages, Keras' backend, and how a process of its own imports the large ones."""

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

_LEAST = {"keras": (3, 13)}  # the first with what `watch/keras_internals` replaces; the layers alone take older ones


def require(caller: str, *packages: str, extra: str = "export") -> None:
    """Raises ImportError, with the command that helps, unless the packages are installed. Imports none of them.

    One that is used by its private names must be new enough, too.
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
    """Returns the version of an installed package, by its name in an import or an installation; None if there is none.

    A package may come under another name than it is asked for: TensorFlow as "tensorflow-cpu" or "tf-nightly" too.
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        others = importlib.metadata.packages_distributions().get(package.replace("-", "_"), ())
        return next((importlib.metadata.version(name) for name in others if name != package), None)


def keras_backend() -> str:
    """Returns the backend that Keras runs on, or would take as it finds it, without importing Keras."""
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
    """Keeps the garbage collector away from what is imported within, now and later: it stays until the process ends.

    The collector would look through it all again and again: a quarter of the time that TensorFlow's import takes, and
    again when the process ends. For a process of this package's own, before anything is computed in it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
