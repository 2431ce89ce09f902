"""References that need no Keras: an artifact in its runtime, and outputs that were stored with their inputs."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from keras_pe.export.artifacts.artifact import SIZES_KEY, TensorInfo
from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.model.sizes.dimensions import SizeRange, all_dimensions, dimensions_from_json
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec


class StoredReference(Reference):
    """One stored case and the outputs expected of it."""

    def __init__(self, name: str, case: Case, outputs: Arrays) -> None:
        self.name = name
        self.case = case
        self._outputs = outputs
        self.inputs = tuple(TensorInfo(name, array.shape, array.dtype.name) for name, array in case.inputs.items())

    @property
    def basis(self) -> str:
        return "stored outputs, tolerance by dtype"

    def close(self) -> None:
        pass

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        raise RuntimeRefusedError("outputs that were stored are no answer to other inputs")

    def _answer(self, case: Case) -> Expectation:
        if case is not self.case:
            return Expectation(case, None, error="no outputs are stored for it")
        return Expectation(case, self._outputs)


class ArtifactReference(Reference):
    """An artifact in a runtime of its own.

    Raises:
        RuntimeRefusedError, RuntimeDiedError, RuntimeHungError: If it cannot be loaded.
    """

    def __init__(
        self, path: Path, spec: RuntimeSpec, timeout: float, sizes: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.name = str(path)
        self._path = path
        self._runtime = spec.name
        self._worker = Worker(spec, timeout)
        try:
            self._worker.load(path)
        except BaseException:
            self._worker.close()
            raise
        self.inputs = self._worker.inputs
        with contextlib.suppress(ValueError, ImportError):  # of another exporter, or not a file that can be read here
            self.dimensions = dimensions_from_json(read_artifact(path).metadata.get(SIZES_KEY, "{}"))
        self.dimensions = all_dimensions([spec.shape for spec in self.inputs], self.dimensions)
        if unknown := (sizes or {}).keys() - self.dimensions:
            self._worker.close()
            raise ValueError(
                f"`sizes` must be of {', '.join(sorted(self.dimensions))}. Received: {', '.join(sorted(unknown))}."
            )
        for name, own in (sizes or {}).items():
            given = SizeRange(min(own), 0, given=tuple(own))
            self.dimensions = {**self.dimensions, name: replace(self.dimensions[name], sizes=given)}
        self.version = self._worker.version

    @property
    def basis(self) -> str:
        return f"{self.name} in {self._runtime}, tolerance by dtype"

    def close(self) -> None:
        self._worker.close()

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        if not self._worker.is_free:  # it did not survive what it was asked before
            self._worker.load(self._path)
        return self._worker.run(inputs)
