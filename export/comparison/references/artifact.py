"""An artifact as the reference: its runtime's answers, and tolerances by dtype."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.model.sizes.dimensions import Dimension, all_dimensions, dimensions_from_json
from keras_pe.export.model.sizes.sizes import SizeRange
from keras_pe.export.publishing.metadata import SIZES_KEY
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.worker import Worker


class ArtifactReference:
    """An artifact in a runtime of its own.

    Raises:
        RuntimeRefusedError, RuntimeDiedError, RuntimeHungError: If it cannot be loaded.
    """

    roles: Mapping[str, Role] = {}
    sizes: Mapping[str, int] = {}
    dimensions: Mapping[str, Dimension] = {}
    model = None
    signature = None

    def __init__(
        self, path: Path, spec: RuntimeSpec, timeout: float, sizes: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.name = str(path)
        self.basis = f"{path} in {spec.name}, tolerance by dtype"
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        return tuple(self._answer(case) for case in cases)

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._worker.run(inputs)

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        return {}

    def noise(self, cases: Sequence[Case]) -> Sequence[Mapping[str, Array]]:
        return [{} for _ in cases]

    def _answer(self, case: Case) -> Expectation:
        try:
            return Expectation(case, self._worker.run(case.inputs))
        except RuntimeRefusedError as error:
            return Expectation(case, None, error=str(error))
