"""Runs a runtime of format "keras" in this process: the model may be one that no other process could load."""

import importlib
import time
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.runtimes.names import Names
from keras_pe.export.runtimes.runtime import Array, Arrays, RuntimeSpec


class InProcessRunner:
    """Has the methods of `Worker`, without the child process."""

    inputs: tuple[TensorInfo, ...]
    version: str
    providers: Mapping[str, int] = MappingProxyType({})
    names = Names()  # the model's own
    capabilities: frozenset[str] = frozenset()  # a compiled model cannot be read inside

    def __init__(self, spec: RuntimeSpec, model: Any, signature: Any) -> None:
        self.spec = spec
        self.seconds = 0.0
        self._model = model
        self._signature = signature
        self._runtime: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime = None

    def load(self, path: object = None) -> None:
        module, _, name = self.spec.factory.partition(":")
        factory = getattr(importlib.import_module(module), name)
        self._runtime = factory(self._model, self._signature, **self.spec.options)
        self.inputs, self.version = self._runtime.inputs, self._runtime.version

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        start = time.perf_counter()
        try:
            outputs: Arrays = self._runtime.run(inputs)
        except Exception as error:  # whatever a layer raises is an answer
            raise RuntimeRefusedError(f"{type(error).__name__}: {error}") from error
        self.seconds += time.perf_counter() - start
        return outputs

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        raise RuntimeRefusedError("a compiled model cannot be read inside")

    def weights(self) -> Mapping[str, Array]:
        return {}

    def float_dtypes(self) -> tuple[str, ...]:
        return ()

    def metadata(self) -> dict[str, str]:
        return {}
