"""Starts Keras for a command: fast, silent, and with an allocator that returns memory to the system.

The terminal shows TensorFlow's log only if the start fails. The modules that a model needs are imported at the start,
and a file that cannot hold a model is reported before it.
"""

import contextlib
import importlib
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_pe.cli.exit_codes import CouldNotBeTriedError, tried
from keras_pe.cli.standard_streams import at_interrupt, ending
from keras_pe.export.dependencies import lasting_imports
from keras_pe.export.errors import describe, is_out_of_memory, sentence

_NEEDED = 2**28  # bytes: less than Keras takes
_UNUSED = ("IPython", "matplotlib", "pandas")  # Keras imports them if they are there: a fifth of its import


def check_model_file(path: Path) -> None:
    """Raises if a file holds no whole model that Keras saved, without starting Keras, which takes seconds."""
    from keras_pe.export.model.saved_file import check_saved_file

    with tried():
        check_saved_file(path)


def prepare_keras(modules: Sequence[str], unsafe: bool) -> None:
    """Starts Keras and has it know what a model may be made of.

    Args:
        modules: Modules to import, from the current folder as well.
        unsafe: Whether Python code in a file may be loaded.

    Raises:
        CouldNotBeTriedError: If Keras does not start, or a module cannot be imported.
    """
    with tried():
        start_keras()
    import keras

    if unsafe:
        keras.config.enable_unsafe_deserialization()
    if modules:
        sys.path.insert(0, str(Path.cwd()))
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever a module raises
            raise CouldNotBeTriedError(f"--import {name} failed: {describe(error)}") from error


def start_keras() -> None:
    """Imports Keras and its backend, which write to the standard error past Python.

    Raises:
        ImportError: If one of them is missing or broken, or memory runs out; what they wrote is shown then.
    """
    if "keras" in sys.modules:
        return
    # oneDNN's own allocator rounds sizes up to powers of two, and never frees memory. A model and its float64 rebuild
    # would take twice their size.
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    sys.stderr.flush()
    terminal = os.dup(2)
    # In an import KeyboardInterrupt gets lost, or becomes an ImportError of a package that is there.
    with at_interrupt(ending(terminal)), tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        started = False
        try:
            with lasting_imports(), _left_out(_UNUSED):
                import keras

            keras.ops.zeros(())  # the devices are looked for at the first operation
            started = True
        except Exception as error:  # whatever half an import makes of the rest
            if is_out_of_memory(error) or _is_memory_short():
                raise ImportError(f"Keras could not be started: memory ran out ({error or 'MemoryError'}).") from error
            if isinstance(error, ImportError):
                raise
            raise ImportError(f"Keras could not be started: {sentence(describe(error))}") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            if not started:
                log.seek(0)
                os.write(2, log.read())


def _is_memory_short() -> bool:
    """Whether the system refuses memory to this process: the error that an import ends with may be a later one."""
    try:
        mmap.mmap(-1, _NEEDED).close()
    except (OSError, MemoryError):
        return True
    return False


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
