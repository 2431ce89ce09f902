"""Runs a runtime in a child process, so that its crash or hang is an answer and not the end of the caller."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.errors import ProcessDiedError, ProcessHungError, RuntimeDiedError, RuntimeHungError
from keras_pe.export.processes.child import Child
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import RuntimeSpec

_SESSION = "keras_pe.export.runtimes.session:RuntimeSession"


class Worker(Runner):
    """One runtime in one child process. The process starts importing at once; `load` opens an artifact.

    Another `load` opens another artifact, with another runtime if one is given, in the same process, or in a new one if
    the process is gone, as it is after `RuntimeDiedError` and `RuntimeHungError`.

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
        self.process = self._started()
        self._has_loaded = False

    def _started(self) -> Child:
        return Child(_SESSION, self.spec.factory, environment=self._environment)

    @property
    def is_free(self) -> bool:
        """Whether the process is there and owes no answer."""
        return self.process.is_free

    def load(self, path: Path | None = None, spec: RuntimeSpec | None = None) -> None:
        if self._has_loaded and self.process.has_ended:
            self.process.close()
            self.process = self._started()
        self._has_loaded = True
        super().load(path, spec)

    def unload(self) -> None:
        """Lets the artifact go, if there is one, which frees its memory. The process stays."""
        if self._has_loaded:
            self._ask("unload")

    def close(self) -> None:
        self.process.close()

    def _ask(self, request: str, *arguments: Any, limit: float = 1.0) -> tuple[Any, float]:
        try:
            answer: tuple[Any, float] = self.process.ask("ask", request, *arguments, limit=self._timeout * limit)
        except ProcessDiedError as error:
            raise RuntimeDiedError(str(error)) from None
        except ProcessHungError as error:
            raise RuntimeHungError(str(error)) from None
        return answer

    def _opening(self, path: Path | None) -> Sequence[Any]:
        return (str(path),)
