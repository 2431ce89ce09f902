"""Finds the descendants of a program by a mark in their environment, and ends them."""

import contextlib
import os
import select
import signal
from pathlib import Path

_VARIABLE = "KERAS_PE_STARTED_BY"
_ROUNDS = 5  # a program may start another while it is looked for
_PATIENCE = 10_000  # milliseconds


def marks(mark: str) -> dict[str, str]:
    """Returns the environment variables that mark a program and its descendants, in whatever session.

    Args:
        mark: Unique, and without a colon. The marks of this process stay.
    """
    return {_VARIABLE: ":".join([*_marks(os.environb.get(_VARIABLE.encode(), b"")), mark])}


def own_mark() -> str:
    """Returns the mark that this process was started with; an empty text if it was started without."""
    return os.environ.get(_VARIABLE, "").rpartition(":")[2]


def end_marked(mark: str) -> None:
    """Ends every process with a mark, this one aside. Needs `/proc`, and does nothing without it."""
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if pid != os.getpid() and mark in _marks_of(pid)]
        for pid in [*filter(_kill, found)]:  # all are killed before the first wait
            with contextlib.suppress(ProcessLookupError):
                _wait_for_end(pid)
        if not found:
            return


def _kill(pid: int) -> bool:
    """Kills a process, and returns whether it was there and may be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _wait_for_end(pid: int) -> None:
    """Waits until a killed process is gone, which takes a while if it has much memory."""
    descriptor = os.pidfd_open(pid)
    try:
        end = select.poll()
        end.register(descriptor, select.POLLIN)
        end.poll(_PATIENCE)
    finally:
        os.close(descriptor)


def _processes() -> list[int]:
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ")]


def _marks_of(pid: int) -> list[str]:
    """Returns the marks of a process; none of one that has ended, or is another user's."""
    start = f"{_VARIABLE}=".encode()
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
    return [mark for each in variables if each.startswith(start) for mark in _marks(each.removeprefix(start))]


def _marks(value: bytes) -> list[str]:
    return [mark for mark in os.fsdecode(value).split(":") if mark]
