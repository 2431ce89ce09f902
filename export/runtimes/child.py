"""The other side of `Worker`: one runtime in a process of its own, told what to do through its standard streams."""

import importlib
import os
import pickle
import sys
import time
from typing import Any, BinaryIO

from keras_pe.export.dependencies import lasting_imports
from keras_pe.export.errors import RuntimeDiedError, RuntimeRefusedError

_OPTIONAL = ("intermediates", "weights", "float_dtypes", "metadata")


def main() -> None:
    """Answers requests until there are no more. The class of the first runtime is named on the command line."""
    # Libraries print to the standard output as they like: give them the standard error, keep the pipe for the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    try:
        with lasting_imports():
            _find(sys.argv[1])
    except Exception as error:
        _send(answers, "refused", _describe(error))
        return
    _send(answers, "ready", None)
    runtime: Any = None
    while True:
        try:
            request, arguments = pickle.load(requests)
        except EOFError:
            return
        start = time.perf_counter()
        try:
            if request == "load":
                runtime = None  # the one before makes room
                factory, path, options = arguments
                runtime = _find(factory)(path, **options)
                capabilities = frozenset(_OPTIONAL).intersection(dir(runtime))
                providers = dict(getattr(runtime, "providers", {}))
                answer: Any = (runtime.inputs, runtime.version, providers, capabilities)
            elif request == "unload":
                answer = runtime = None
            elif request == "run_all":
                answer = [runtime.run(inputs) for inputs in arguments[0]]
            else:
                answer = getattr(runtime, request)(*arguments)
        except RuntimeDiedError as error:  # what it has started is gone, though this process is not
            _send(answers, "died", str(error))
        except RuntimeRefusedError as error:  # in the words of the runtime that it drives
            _send(answers, "refused", str(error))
        except Exception as error:  # whatever a runtime raises is an answer, and the next request may still work
            _send(answers, "refused", _describe(error))
        else:
            _send(answers, "ok", (answer, time.perf_counter() - start))


def _find(factory: str) -> Any:
    module, _, name = factory.partition(":")
    return getattr(importlib.import_module(module), name)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _send(stream: BinaryIO, status: str, value: Any) -> None:
    pickle.dump((status, value), stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()
