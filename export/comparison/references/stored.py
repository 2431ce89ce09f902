"""Outputs that were stored with their inputs, as the reference."""

from collections.abc import Mapping

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays


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
