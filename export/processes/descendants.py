"""What a program has started, and what that has started in turn: found by a mark in the environment, and ended."""

import contextlib
import os
import signal
from pathlib import Path

MARK = "KERAS_PE_STARTED_BY"
"""The variable that a program and all that it starts have in their environment, in whatever session they run."""

_ROUNDS = 5  # a program may start another while it is looked for


def end_marked(value: str) -> None:
    """Ends every process that has a value of the mark, this one aside. Needs `/proc`, and does nothing without it."""
    mark = f"{MARK}={value}".encode()
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if pid != os.getpid() and mark in _environment(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _processes() -> list[int]:
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ")]


def _environment(pid: int) -> list[bytes]:
    """Returns the variables of a process; none of one that has ended, or is another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
