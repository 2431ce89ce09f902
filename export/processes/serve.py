"""The child's side of `Child`: makes the object, and calls its methods until there are no more requests."""

import contextlib
import os
import pickle
import pkgutil
import select
import signal
import sys
import threading
from typing import Any, BinaryIO

from keras_pe.export.dependencies import lasting_imports
from keras_pe.export.errors import UnreadRequestError, typed

_answers: list[BinaryIO] = []  # of a process that serves, where they go


def main() -> None:
    """Answers requests. The first message says what makes the object that answers the others."""
    # Libraries print to the standard output as they like: give them the standard error, keep the pipe for the answers.
    _answers.append(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError):
        factory, arguments = pickle.load(sys.stdin.buffer)
        try:
            with lasting_imports():
                target = pkgutil.resolve_name(factory)(*arguments)
        except Exception as error:  # whatever the factory raises, the parent raises it
            _send("error", _portable(error))
            return
        _send("ok", None)
        while _answer(target):
            pass


def note(value: Any) -> None:
    """Tells the parent something before the answer, such as what is being done; in any other process nothing."""
    if _answers:
        _send("note", value)


def _answer(target: Any) -> bool:
    """Answers the next request. Returns whether the one after it can be read."""
    try:
        method, arguments = pickle.load(sys.stdin.buffer)
    except EOFError:
        raise
    except Exception as error:  # such as a function of a module that is not known here; the rest of it is unread
        _send("error", UnreadRequestError(typed(error)))
        return False
    try:
        status, value = "ok", getattr(target, method)(*arguments)
    except Exception as error:  # the caller's to handle
        status, value = "error", _portable(error)
    _send(status, value)
    return True


def _send(status: str, value: Any) -> None:
    pickle.dump((status, value), _answers[0], protocol=pickle.HIGHEST_PROTOCOL)
    _answers[0].flush()


def _portable(error: Exception) -> Exception:
    """Returns an error that can be sent: itself, or one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(typed(error))
    return error


def _end_with_parent() -> None:
    """Ends this process, and those that it has started, when its parent is gone, whatever it is at."""
    watched = select.poll()
    watched.register(0, 0)  # the pipe that requests come through: that it was hung up is always told
    watched.poll()
    os.killpg(0, signal.SIGKILL)
