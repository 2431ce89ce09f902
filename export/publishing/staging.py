"""Nothing lost: an artifact is made beside its destination and moved there when it is whole.

What stood at the destination stays there until then. A run that was killed leaves its folder behind, unlocked, and the
next run to the same destination removes it.
"""

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

_SUFFIX = ".partial"
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2): two names swap what they stand for, in one step
_AT_FDCWD = -100


@contextlib.contextmanager
def staging(destination: Path) -> Iterator[Path]:
    """Yields an empty folder beside the destination, removed on exit.

    Raises:
        OSError: If the folder cannot be made.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    for stray in destination.parent.glob(f".{_literal(destination.name)}.*{_SUFFIX}"):
        _remove_unless_locked(stray)
    folder = destination.parent / f".{destination.name}.{secrets.token_hex(4)}{_SUFFIX}"
    with _locked(destination.parent):  # so that no other run takes the folder for a stray before it is locked
        folder.mkdir()
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def publish_file(file: Path, companions: Sequence[Path], destination: Path) -> None:
    """Moves a file to its destination, with the files it refers to; those of the file it replaces are removed.

    Companions are named after the destination and their content, so that old and new stand side by side until the one
    rename that decides.
    """
    with _locked(destination.parent):
        for companion in companions:
            companion.replace(destination.with_name(companion.name))
        file.replace(destination)
        kept = {companion.name for companion in companions}
        for old in destination.parent.glob(f"{_literal(destination.name)}.{'[0-9a-f]' * 16}.data"):
            if old.name not in kept:
                old.unlink()


def publish_folder(folder: Path, destination: Path) -> None:
    """Moves a folder to its destination. The folder that stood there ends where the new one was."""
    with _locked(destination.parent):
        if destination.exists():
            _exchange(folder, destination)
        else:
            folder.rename(destination)


def _exchange(one: Path, other: Path) -> None:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename and rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return
    aside = one.with_name(f"{one.name}.old")  # no such call here: two steps, undone if the second fails
    other.rename(aside)
    try:
        one.rename(other)
    except BaseException:
        aside.rename(other)
        raise


def _remove_unless_locked(folder: Path) -> None:
    with _locked(folder.parent), contextlib.suppress(FileNotFoundError, BlockingIOError):
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _literal(name: str) -> str:
    import glob

    return glob.escape(name)
