"""Runs foreign code, such as layers and plug-ins, so that it cannot end this process with exit code 0."""

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import NoReturn

from keras_pe.export.errors import ForeignExitError

_COULD_NOT_BE_TRIED = 2  # the exit code of a command that has no verdict
_system_exit = os._exit
_codes: defaultdict[int, list[int]] = defaultdict(list)  # by process: a fork inherits the list and has no block open
_lock = threading.Lock()


@contextlib.contextmanager
def foreign_code() -> Iterator[None]:
    """Runs a block that calls code of somebody else. If any thread calls `os._exit(0)` meanwhile, the exit code is 2.

    Raises:
        ForeignExitError: If the block raises SystemExit, or anything else that is not an `Exception`. KeyboardInterrupt
            passes: it is the user's.
    """
    with exiting_with(_COULD_NOT_BE_TRIED):
        try:
            yield
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ForeignExitError.of(error) from error


@contextlib.contextmanager
def exiting_with(code: int) -> Iterator[None]:
    """Makes `os._exit(0)` end this process with `code` while a block runs. Other codes and forked processes pass."""
    own = _codes[os.getpid()]
    with _lock:
        own.append(code)
        os._exit = _exit
    try:
        yield
    finally:
        with _lock:
            own.remove(code)
            if not own:
                os._exit = _system_exit


def _exit(status: int) -> NoReturn:
    code = next(reversed(_codes[os.getpid()]), status) if status == 0 else status
    if code != status:
        os.write(2, f"Error: code that was called ended the process with os._exit(0). Exit code: {code}.\n".encode())
    _system_exit(code)
