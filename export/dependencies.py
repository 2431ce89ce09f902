"""What an exporter needs: packages, and how a process of its own imports the large ones."""

import contextlib
import gc
import importlib
import importlib.util
from collections.abc import Iterator


def require(caller: str, *packages: str, extra: str = "export") -> None:
    """Raises ImportError, with the command that helps, unless the packages are installed. Imports none of them."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise ImportError(
                    f"{caller}() needs the package '{package}'. Install it with: pip install 'keras-pe[{extra}]'"
                ) from error


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
