"""A lock that other processes respect, on every system, and that leaves nothing behind."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock file, which is removed afterwards; waits while another process, or thread, holds it.

    The lock is the system's own: of a process that was killed, the file remains and is free.
    """
    descriptor = _locked(path)
    try:
        yield
    finally:
        if os.name == "nt":  # which removes no open file, nor one that somebody else waits for
            os.close(descriptor)
            with contextlib.suppress(OSError):
                path.unlink()
        else:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            lock_descriptor(descriptor)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # who held the lock has removed the file: the lock is of another one by now


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
