"""Outputs that were stored with their inputs, as the reference."""

from collections.abc import Mapping, Sequence
from typing import Self

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.model.sizes.dimensions import Dimension
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays


class StoredReference:
    """One stored case and the outputs expected of it."""

    basis = "stored outputs, tolerance by dtype"
    version = ""
    roles: Mapping[str, Role] = {}
    sizes: Mapping[str, int] = {}
    dimensions: Mapping[str, Dimension] = {}
    model = None
    signature = None

    def __init__(self, name: str, case: Case, outputs: Arrays) -> None:
        self.name = name
        self.case = case
        self._outputs = outputs
        self.inputs = tuple(TensorInfo(name, array.shape, array.dtype.name) for name, array in case.inputs.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        return tuple(
            Expectation(case, self._outputs)
            if case.name == self.case.name
            else Expectation(case, None, error="no outputs are stored for it")
            for case in cases
        )

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        raise RuntimeRefusedError("outputs that were stored are no answer to other inputs")

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        return {}

    def noise(self, cases: Sequence[Case]) -> Sequence[Mapping[str, Array]]:
        return [{} for _ in cases]
