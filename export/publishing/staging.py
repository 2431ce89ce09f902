"""Makes an artifact beside its destination, and moves it there as a whole, so that a failure loses nothing.

The previous file stays at the destination until then, through a crash of the process or of the machine. A killed run
leaves its folder behind, and the next run to the same destination removes it. Runs to one destination wait for each
other, at a lock that other processes respect on every system.
"""

import contextlib
import ctypes
import errno
import glob
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from filelock import lock_descriptor

from keras_pe.export.publishing.destination import check_file_path

_SUFFIX = ".partial"
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2): two names swap what they stand for, in one step
_AT_FDCWD = -100
_OF_THE_DISK = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOLCK, errno.EOPNOTSUPP),
)


@contextlib.contextmanager
def staging(destination: Path) -> Iterator[Path]:
    """Yields an empty folder beside the destination, removed on exit.

    Raises:
        OSError: If the folder cannot be made.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with locked(destination.with_name(f".{destination.name}.lock")):
        _clean_up(destination)
        folder = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}{_SUFFIX}")
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def staged_artifact(destination: Path) -> Iterator[Path]:
    """Yields a temporary folder to write an artifact to, see `staging`.

    Raises:
        OSError: If the disk refuses the files. The error names the destination.
    """
    try:
        with staging(destination) as folder:
            yield folder
    except OSError as error:
        # A part, such as the graph of a decoder, is staged within this folder: its error names the temporary path.
        reason = error.__cause__ if error.errno is None and isinstance(error.__cause__, OSError) else error
        if reason.errno not in _OF_THE_DISK:
            raise
        raise not_written("The artifact", destination, reason) from reason


@contextlib.contextmanager
def staged_file(destination: Path, what: str) -> Iterator[Path]:
    """Yields where to write one small file, which is moved to its destination when it is whole.

    Args:
        destination: Path of the file.
        what: Subject of an error, such as "The report".

    Raises:
        OSError: If it cannot be written, for example on a full disk. The previous file stays.
    """
    check_file_path(destination, what)
    try:
        place = Path(os.path.realpath(destination))  # A link stays, and what it leads to is written.
        with staging(place) as folder:
            part = folder / place.name
            yield part
            part.replace(place)
    except OSError as error:
        raise not_written(what, destination, error) from error


def not_written(what: str, destination: Path, error: OSError) -> OSError:
    """Returns the error of something that could not be written, with its place and the reason of the system."""
    why = error.strerror or str(error)
    stays = " What stood there stays." if destination.exists() else ""
    return OSError(f"{what} could not be written to {destination}: {why}.{stays}")


def publish_file(file: Path, companions: Sequence[Path], destination: Path) -> None:
    """Moves a file to its destination, with the files it refers to, and removes the files of the previous one.

    Companions are named after the destination and their content, so that old and new stand side by side until the one
    rename that decides. Call it within `staging`.
    """
    for companion in companions:
        _sync(companion)
        companion.replace(destination.with_name(companion.name))
    _sync(file)
    _sync_names(destination.parent)
    file.replace(destination)
    _sync_names(destination.parent)
    kept = {companion.name for companion in companions}
    for old in destination.parent.glob(_companions(destination.name)):
        if old.name not in kept:
            old.unlink()


def _companions(name: str) -> str:
    """Returns the pattern of the names of a file's companions."""
    return f"{glob.escape(name)}.{'[0-9a-f]' * 16}.data"


def publish_folder(folder: Path, destination: Path) -> None:
    """Moves a folder to its destination and removes the previous one. Call it within `staging`."""
    for path in [*(path for path in folder.rglob("*") if not path.is_symlink()), folder]:
        _sync_names(path) if path.is_dir() else _sync(path)
    if destination.exists():
        _exchange(folder, destination)
    else:
        folder.rename(destination)
    _sync_names(destination.parent)


def keep_other_files(previous: Path, folder: Path, replaced: Collection[str]) -> None:
    """Links the files of a folder into its replacement, except for files that exist there.

    Args:
        previous: The folder that is replaced, which may be missing.
        folder: The folder that replaces it.
        replaced: The names of files that are left out. The companions of each are left out too.
    """
    patterns = [pattern for name in replaced for pattern in (glob.escape(name), _companions(name))]

    def skip_replaced(place: str, names: list[str]) -> set[str]:
        if Path(place) != previous:
            return set()
        left_out = {name for name in names if any(fnmatch(name, pattern) for pattern in patterns)}
        return left_out | {name for name in names if (folder / name).exists()}

    if previous.is_dir():
        shutil.copytree(previous, folder, True, skip_replaced, _link, dirs_exist_ok=True)


def _link(file: str, place: str) -> None:
    try:
        os.link(file, place)
    except OSError:  # some file systems have no links
        shutil.copy2(file, place)


def _exchange(folder: Path, destination: Path) -> None:
    if _exchange_in_one_step(folder, destination):
        return
    previous = _previous(destination)  # in two steps: after a crash between them the next run undoes the first
    destination.rename(previous)
    try:
        folder.rename(destination)
    except BaseException:
        previous.rename(destination)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _exchange_in_one_step(one: Path, other: Path) -> bool:
    """Returns False where the system, or the file system, cannot: it takes Linux and, say, ext4 or XFS."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other))
    return rename is not None and rename(*names, _EXCHANGE) == 0


def _previous(destination: Path) -> Path:
    return destination.with_name(f".{destination.name}.previous")


def _clean_up(destination: Path) -> None:
    """Removes the remains of a killed run, and restores the files that it had moved aside."""
    for stray in destination.parent.glob(f".{glob.escape(destination.name)}.*{_SUFFIX}"):
        shutil.rmtree(stray, ignore_errors=True)
    previous = _previous(destination)
    if previous.exists() and not destination.exists():
        previous.rename(destination)
    shutil.rmtree(previous, ignore_errors=True)


def _sync(file: Path) -> None:
    """Has the system write a file to the disk, so that its name cannot get there before it."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _sync_names(folder: Path) -> None:
    """Has the system write the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock file, which is removed afterwards; waits while another process, or thread, holds it.

    The lock is the system's own: of a process that was killed, the file remains and is free.
    """
    descriptor = _lock_file(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock_file(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            lock_descriptor(descriptor)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous owner has removed the file: another process has its lock


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
