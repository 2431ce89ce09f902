"""A runtime in a child process."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.errors import (
    ForeignExitError,
    ProcessDiedError,
    ProcessHungError,
    RuntimeDiedError,
    RuntimeHungError,
    RuntimeRefusedError,
    UnreadRequestError,
    describe,
)
from keras_pe.export.processes.process import Child
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import RuntimeSpec

_SESSION = "keras_pe.export.runtimes.runtime_session:RuntimeSession"


class Worker(Runner):
    """One runtime in one child process. The process starts importing at once; `load` opens an artifact.

    Another `load` opens another artifact, with another runtime if one is passed, in the same process. It starts a new
    process if the old one is gone, as after `RuntimeDiedError` and `RuntimeHungError`. `call` runs a function there.

    Attributes:
        process: The child.
    """

    def __init__(self, spec: RuntimeSpec, timeout: float, environment: Mapping[str, str] | None = None) -> None:
        """Starts the process.

        Args:
            spec: The runtime.
            timeout: Seconds that an answer may take.
            environment: Variables for the process, which come before those of this one's environment.
        """
        super().__init__(spec)
        self._timeout, self._environment = timeout, environment
        self.process = self._start()
        self._was_asked = False

    def _start(self) -> Child:
        return Child(_SESSION, self.spec.factory, environment=self._environment)

    @property
    def is_free(self) -> bool:
        """Whether the process is there and owes no answer."""
        return self.process.is_free

    def load(self, path: Path | None = None, spec: RuntimeSpec | None = None) -> None:
        self._restart_if_ended()
        super().load(path, spec)

    def unload(self) -> None:
        """Lets the artifact go, if there is one, which frees its memory. The process stays."""
        if self._was_asked:
            self._ask("unload")

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in the child process, such as a conversion, and returns its result.

        Args:
            function: A function of a module, which the child process imports.
            *arguments: Its arguments.

        Raises:
            RuntimeRefusedError: With the error of the function.
            RuntimeDiedError: If the process ended.
            RuntimeHungError: If there was no result in time.
        """
        self._restart_if_ended()
        return self._send("call", function, arguments, limit=self._timeout)

    def _restart_if_ended(self) -> None:
        """Starts another process if this one ended after a request. One that ended before any says why when asked."""
        if self._was_asked and self.process.has_ended:
            self.process.close()
            self.process = self._start()
        self._was_asked = True

    def close(self) -> None:
        self.process.close()

    def _ask(self, request: str, *arguments: Any, limit: float = 1.0) -> tuple[Any, float]:
        answer: tuple[Any, float] = self._send("ask", request, *arguments, limit=self._timeout * limit)
        return answer

    def _send(self, method: str, *arguments: Any, limit: float) -> Any:
        """Returns the result of a method of the session, called in the child process."""
        try:
            return self.process.ask(method, *arguments, limit=limit)
        except ProcessDiedError as error:
            raise RuntimeDiedError(str(error)) from None
        except ProcessHungError as error:
            raise RuntimeHungError(str(error)) from None
        except UnreadRequestError as error:  # an option that is not known there
            raise RuntimeRefusedError(str(error)) from error
        except (pickle.PicklingError, AttributeError, TypeError, ForeignExitError) as error:  # or cannot be sent
            raise RuntimeRefusedError(describe(error)) from error

    def _opening(self, path: Path | None) -> Sequence[Any]:
        return (str(path),)
