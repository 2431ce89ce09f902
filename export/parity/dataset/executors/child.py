"""The other side of `ProcessPool`: runs functions that come through the standard input until there are no more."""

import os
import pickle
import sys


def main() -> None:
    """Answers each task with its result or its error."""
    # Libraries print to the standard output as they like: give them the standard error, keep the pipe for the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            fn, args, kwargs = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = "ok", fn(*args, **kwargs)
        except Exception as error:  # the caller's to handle
            answer = "error", _portable(error)
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _portable(error: Exception) -> Exception:
    """Returns an error that can be pickled: itself, or one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
