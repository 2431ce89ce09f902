"""The other side of `Worker`: one runtime in a process of its own, told what to do through its standard streams."""

import importlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

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
    session = _Session()
    while True:
        try:
            request, arguments = pickle.load(requests)
        except EOFError:
            return
        start = time.perf_counter()
        try:
            answer = session.answer(request, arguments)
        except RuntimeDiedError as error:  # what it has started is gone, though this process is not
            _send(answers, "died", str(error))
        except RuntimeRefusedError as error:  # in the words of the runtime that it drives
            _send(answers, "refused", str(error))
        except Exception as error:  # whatever a runtime raises is an answer, and the next request may still work
            _send(answers, "refused", _describe(error))
        else:
            _send(answers, "ok", (answer, time.perf_counter() - start))
        answer = None  # it may be large, and the next request long in coming


class _Session:
    """The artifact that is loaded, and its weights once they are asked for."""

    def __init__(self) -> None:
        self._runtime: Any = None
        self._weights: Mapping[str, Any] = {}

    def answer(self, request: str, arguments: tuple[Any, ...]) -> Any:
        own: dict[str, Callable[..., Any]] = {"load": self._load, "unload": self._unload, "run_all": self._run_all}
        own |= {"weights": self._name_weights, "weight": self._weight}
        return own[request](*arguments) if request in own else getattr(self._runtime, request)(*arguments)

    def _load(self, factory: str, path: str, options: Mapping[str, Any]) -> Any:
        self._unload()  # the one before makes room
        self._runtime = runtime = _find(factory)(path, **options)
        capabilities = frozenset(_OPTIONAL).intersection(dir(runtime))
        return runtime.inputs, runtime.version, dict(getattr(runtime, "providers", {})), capabilities

    def _unload(self) -> None:
        self._runtime, self._weights = None, {}

    def _run_all(self, batches: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [self._runtime.run(inputs) for inputs in batches]

    def _name_weights(self) -> list[str]:
        self._weights = self._runtime.weights()
        return list(self._weights)

    def _weight(self, name: str) -> Any:
        return np.asarray(self._weights[name])


def _find(factory: str) -> Any:
    module, _, name = factory.partition(":")
    return getattr(importlib.import_module(module), name)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _send(stream: BinaryIO, status: str, value: Any) -> None:
    pickle.dump((status, value), stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()
