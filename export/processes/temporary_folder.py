"""A temporary folder that disappears with its process, and the base class of what is closed."""

import contextlib
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import lock_descriptor

_PREFIX = ".keras_pe-tmp-"  # a user gives no folder such a name: folders with it are removed


class Closing(ABC):
    """Something that is open until `close`, or until the end of a `with` statement."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Lets go of what it holds."""


class TemporaryFolder(Closing):
    """A temporary folder with a lock on it for as long as its process lives, however that ends.

    On a file system that grants no locks the folder has none, and stays if its process is killed.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Makes the folder, and removes the folders of killed processes.

        Raises:
            OSError: If this is not a POSIX system, or the folder cannot be made.
        """
        if os.name != "posix":
            raise OSError(
                "Exports and checks start processes as Linux and macOS do. Received: Windows. Use them in the Windows "
                "Subsystem for Linux; the layers run everywhere."
            )
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if (lock := _lock_folder(folder)) is not None:
                    _remove(folder, lock)
        self.path, lock = _new_folder()
        self._finalizer = weakref.finalize(self, _remove, self.path, lock)

    def close(self) -> None:
        self._finalizer()


def _new_folder() -> tuple[Path, int | None]:
    """Returns a new folder and its lock, None if the file system grants none: nobody else can lock the folder then."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = _lock_folder(folder)
        except FileNotFoundError:
            continue  # Another process that starts now took the folder for one left behind.
        except OSError:
            return folder, None
        if lock is not None:
            return folder, lock


def _lock_folder(folder: Path) -> int | None:
    """Locks a folder and returns its descriptor; None if another process has locked or removed it.

    Raises:
        OSError: If the folder is not there, or its file system grants no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    is_kept = False
    try:
        is_kept = lock_descriptor(descriptor, blocking=False) and folder.exists()
    finally:
        if not is_kept:
            os.close(descriptor)
    return descriptor if is_kept else None


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        with contextlib.suppress(OSError):
            os.close(lock)
