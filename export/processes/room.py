"""Temporary folders that are gone at the end, if not of the process that made them, then of the next one's start."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Self

_PREFIX = ".keras_pe-room-"  # no name that a user gives to a folder: what has it is removed


class Room:
    """A temporary folder with a lock on it for as long as its process lives, however that ends.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Makes the folder, and removes those that processes have left behind that were killed."""
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if (lock := _locked(folder)) is not None:
                _remove(folder, lock)
        lock = None
        while lock is None:  # another process that starts now may take a new folder for one left behind
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _locked(self.path)
        self.close = weakref.finalize(self, _remove, self.path, lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _locked(folder: Path) -> int | None:
    """Returns the descriptor of a folder that is locked by this call, None if another process has it or removed it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(lock)
