"""A runtime in a child process, and the processes of several runtimes in turn."""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
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

AT_ONCE = 4  # processes of a queue: one for each of three formats, and the next one
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


class WorkerQueue:
    """Processes of runtimes in the order of their use, with the next few started ahead.

    A process imports its runtime while the reference computes. Their number is bounded, since each takes up to 0.5 GiB.
    """

    def __init__(self, specs: Iterable[RuntimeSpec], timeout: float, stack: ExitStack) -> None:
        """Starts the first processes.

        Args:
            specs: The runtimes. A runtime of the model itself runs in this process, and its worker is None.
            timeout: Seconds that an answer may take.
            stack: Closes the remaining processes at the end. The user of a process closes it after use.
        """
        self._waiting, self._timeout, self._stack = iter(specs), timeout, stack
        self._started: deque[Worker | None] = deque()
        self._fill()

    def next(self) -> Worker | None:
        """Returns the next process. The caller must have closed the process before it."""
        self._fill()
        return self._started.popleft()

    def _fill(self) -> None:
        while len(self._started) < AT_ONCE and (spec := next(self._waiting, None)) is not None:
            worker = None if spec.format == "keras" else self._stack.enter_context(Worker(spec, self._timeout))
            self._started.append(worker)
