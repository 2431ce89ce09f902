"""Standard streams that never fail the program, and the end of the process after Ctrl-C.

This module imports the standard library alone, so that Ctrl-C is handled before anything else is imported.
"""

import atexit
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import _bootstrap
from types import FrameType
from typing import Any, NoReturn, TextIO

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_COULD_NOT_BE_TRIED = 2
_exit_now = os._exit


@contextlib.contextmanager
def at_interrupt(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Calls a handler at Ctrl-C, SIGTERM and SIGHUP while a block runs, except in another thread.

    A signal that this process ignores, or handles outside Python, stays as it is.
    """
    is_main = threading.current_thread() is threading.main_thread()
    heeded = [each for each in _SIGNALS if is_main and signal.getsignal(each) not in (signal.SIG_IGN, None)]
    before = {each: signal.signal(each, handler) for each in heeded}
    try:
        yield
    finally:
        for each, previous in before.items():
            signal.signal(each, previous)


def exit_code(number: int) -> int:
    """Returns the exit code after a signal, as a shell reports it."""
    return 128 + number


def ending(terminal: int = 2) -> Callable[[int, FrameType | None], None]:
    """Returns a handler that ends the process at once: an exception would be lost in the middle of an import.

    Args:
        terminal: The file descriptor that gets the message.
    """

    def end(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(terminal, b"Interrupted.\n")
        _exit_now(exit_code(number))

    return end


class Interrupt:
    """A handler that raises KeyboardInterrupt, and ends the process at a second signal.

    Attributes:
        number: The number of the signal that came, None without one. Other code may raise KeyboardInterrupt, too.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            ending()(number, frame)
        self.number = number
        raise KeyboardInterrupt


class _Stream(io.FileIO):
    """A standard stream. A write never raises: the first failure is kept, and the rest goes nowhere."""

    failure: OSError | None = None

    def write(self, content: Any) -> int:
        if self.failure is None:
            try:
                return super().write(content) or 0
            except OSError as error:
                self.failure = error
        return len(content)


def run(command: Callable[[], int]) -> NoReturn:
    """Runs a command, and ends the process with what it returns.

    Code that the command has called (threads, `atexit`) does not change the exit code. If the standard output cannot be
    written, for example on a full disk, the code is 2. A reader that closes a pipe, such as `head`, is not a failure.
    """
    with at_interrupt(ending()):
        if _is_interrupted():
            signal.raise_signal(signal.SIGINT)
        output, errors = streams = _open_streams()
        sys.stdout, sys.stderr = (_as_text(*pair) for pair in zip(streams, (sys.stdout, sys.stderr), strict=True))
        texts = sys.stdout, sys.stderr  # other code may replace or close them
        code = command()
        _flush(texts)
        if output.failure is not None and output.failure.errno != errno.EPIPE:
            reason = os.strerror(output.failure.errno or errno.EIO)
            errors.write(f"Error: the standard output could not be written: {reason}.\n".encode())
            code = _COULD_NOT_BE_TRIED
        _end(code, texts)


def _is_interrupted() -> bool:
    """Whether Python has printed an interrupt and gone on, before this module handled Ctrl-C.

    It prints an interrupt that comes while it looks at the script's path, or in the callback that removes the lock of
    an imported module. Such a lock stays, without a referent.
    """
    locks = getattr(_bootstrap, "_module_locks", {})
    return getattr(sys, "last_type", None) is KeyboardInterrupt or None in [lock() for lock in locks.values()]


def _open_streams() -> tuple[_Stream, _Stream]:
    """Returns the standard output and error, after opening those that are closed."""
    for number in (0, 1, 2):  # A closed one would be the next file that is opened, and what is printed would go there.
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return _Stream(1, "w", closefd=False), _Stream(2, "w", closefd=False)


def _as_text(stream: _Stream, before: TextIO | None) -> io.TextIOWrapper:
    encoding = before.encoding if before is not None else "utf-8"
    is_line_buffered = stream.isatty() or stream.fileno() == 2
    # A sign that the encoding lacks is printed as its number.
    return io.TextIOWrapper(io.BufferedWriter(stream), encoding, "backslashreplace", line_buffering=is_line_buffered)


def _flush(streams: Iterable[TextIO]) -> None:
    for stream in streams:
        with contextlib.suppress(ValueError):  # if it is closed
            stream.flush()


def _end(code: int, streams: Iterable[TextIO]) -> NoReturn:
    """Ends the process after what was registered with `atexit`. Threads of other code are not waited for."""
    from keras_pe.export.processes.foreign_code import exiting_with

    with exiting_with(code):
        atexit._run_exitfuncs()
        _flush(streams)
    _exit_now(code)
