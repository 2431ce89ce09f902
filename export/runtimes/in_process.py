"""Runs a runtime of format "keras" in this process: the model may be one that no other process could load."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.session import RuntimeSession


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
