"""The loop of a child process: makes an object, and calls its methods until the requests end."""

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
from keras_pe.export.errors import ForeignExitError, UnreadRequestError, describe
from keras_pe.export.processes.descendants import end_marked, own_mark

_answers: list[BinaryIO] = []  # pipe for the answers of a serving process


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
        except BaseException as error:  # Whatever the factory raises, the parent raises: Ctrl-C never comes here.
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
    except BaseException as error:  # such as a function of a module that is not known here; the rest of it is unread
        _send("error", UnreadRequestError(describe(error)))
        return False
    try:
        status, value = "ok", getattr(target, method)(*arguments)
    except BaseException as error:  # An exit is the caller's to handle, too: this process owes an answer.
        status, value = "error", _portable(error)
    _send(status, value)
    return True


def _send(status: str, value: Any) -> None:
    pickle.dump((status, value), _answers[0], protocol=pickle.HIGHEST_PROTOCOL)
    _answers[0].flush()


def _portable(error: BaseException) -> Exception:
    """Returns an error that can be sent and that does not end the caller: itself, or one with the same message."""
    if not isinstance(error, Exception):
        return ForeignExitError.of(error)
    # The package tblib pickles causes as well, and the class of a cause may be local to a function.
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(describe(error))
    return error


def _end_with_parent() -> None:
    """Ends this process and its children when its parent is gone, at any time."""
    watched = select.poll()
    watched.register(0, 0)  # the pipe of the requests, which always reports a hang-up
    watched.poll()
    end_marked(own_mark())
    os.killpg(0, signal.SIGKILL)
