"""Starts Keras for a command: fast, without a word, and so that memory which is not needed goes back to the system.

What TensorFlow logs when it starts reaches the terminal only if the start fails.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

from keras_pe.export.dependencies import lasting_imports

_UNUSED = ("IPython", "matplotlib", "pandas")  # Keras imports them if they are there: a fifth of its import


def start_keras() -> None:
    """Imports Keras and its backend, which write to the standard error past Python.

    Raises:
        ImportError: If one of them is missing or broken; what they wrote is shown then.
    """
    if "keras" in sys.modules:
        return
    # oneDNN's own allocator takes memory in powers of two and keeps what it once had: a model and its float64 rebuild
    # hold twice what they weigh then.
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        started = False
        try:
            with lasting_imports(), _left_out(_UNUSED):
                import keras

            keras.ops.zeros(())  # the devices are looked for at the first operation
            started = True
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            if not started:
                log.seek(0)
                os.write(2, log.read())


@contextlib.contextmanager
def _left_out(packages: tuple[str, ...]) -> Iterator[None]:
    """Makes packages that are not imported yet seem not to be installed."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None stands for a module that is not there
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
