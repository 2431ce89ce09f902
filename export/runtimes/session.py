"""An artifact in a runtime, asked one thing after the other, in a child process or in this one."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.errors import RuntimeFailedError, RuntimeRefusedError
from keras_pe.export.processes.serve import find
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import RuntimeSpec

_MOST_AT_ONCE = 2**24  # bytes of a weight that are sent together
_OPTIONAL = ("intermediates", "weights", "conditions", "float_dtypes", "metadata")


class RuntimeSession:
    """The artifact that is loaded, and its weights once they are asked for."""

    def __init__(self, factory: str) -> None:
        """Imports the first runtime.

        Raises:
            RuntimeRefusedError: If it cannot be imported.
        """
        self._runtime: Any = None
        self._weights: Mapping[str, Any] = {}
        self._read: tuple[str, Any] = "", None
        _as_refusal(lambda: find(factory))

    def ask(self, request: str, *arguments: Any) -> tuple[Any, float]:
        """Returns an answer, and the seconds that it took.

        Raises:
            RuntimeRefusedError: Whatever the runtime raises.
            RuntimeDiedError: If what the runtime drives is gone.
        """
        own: dict[str, Callable[..., Any]] = {"load": self._load, "unload": self._unload, "run_all": self._run_all}
        own |= {"run": self._run, "weights": self._name_weights, "weight": self._weight}
        start = time.perf_counter()
        answer = _as_refusal(lambda: (own.get(request) or getattr(self._runtime, request))(*arguments))
        return answer, time.perf_counter() - start

    def _load(self, factory: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        self._unload()  # the one before makes room
        runtime = find(factory)(*arguments, **options)
        capabilities = frozenset(_OPTIONAL).intersection(dir(runtime))
        about = tuple(runtime.inputs), str(runtime.version), dict(getattr(runtime, "providers", {})), capabilities
        self._runtime = runtime
        return about

    def _unload(self) -> None:
        self._runtime, self._weights, self._read = None, {}, ("", None)

    def _run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.asarray(array) for name, array in self._runtime.run(inputs).items()}

    def _run_all(self, batches: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [self._run(inputs) for inputs in batches]

    def _name_weights(self) -> list[str]:
        self._weights = self._runtime.weights()
        return list(self._weights)

    def _weight(self, name: str, start: int) -> tuple[Any, bool]:
        """Returns the rows of a weight from one on, as many as are sent together, and whether they are the last."""
        if start == 0 or self._read[0] != name:  # reading it may copy it
            self._read = name, np.asarray(self._weights[name])
        weight = self._read[1]
        if weight.nbytes <= _MOST_AT_ONCE:
            return weight, True
        stop = start + max(1, _MOST_AT_ONCE * len(weight) // weight.nbytes)
        return weight[start:stop], stop >= len(weight)


def _as_refusal(function: Callable[[], Any]) -> Any:
    """Returns what a function returns; whatever it raises is a runtime's answer, and no reason to end."""
    try:
        return function()
    except RuntimeFailedError:  # in the words of the runtime that it drives
        raise
    except (Exception, SystemExit) as error:
        raise RuntimeRefusedError(f"{type(error).__name__}: {error}") from error


class InProcessRunner(Runner):
    """A runtime of the model itself."""

    def __init__(self, spec: RuntimeSpec, model: Any, signature: Any) -> None:
        super().__init__(spec)
        self._model, self._signature = model, signature
        self._session: RuntimeSession | None = None

    def close(self) -> None:
        self._session = None

    def _ask(self, request: str, *arguments: Any, limit: float = 1.0) -> tuple[Any, float]:
        if self._session is None:
            self._session = RuntimeSession(self.spec.factory)
        return self._session.ask(request, *arguments)

    def _opening(self, path: Path | None) -> Sequence[Any]:
        return self._model, self._signature
