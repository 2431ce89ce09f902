"""What a detector of causes may look at, and what it may ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.parity.inputs.cases import Case
from keras_pe.export.parity.inputs.sweep import draw_case
from keras_pe.export.parity.references.reference import Expectation, KerasReference, Reference
from keras_pe.export.parity.results import Array, CaseResult, LayerResult, RuntimeResult
from keras_pe.export.parity.verdict.judge import Runner
from keras_pe.export.runtimes.runtime import Arrays


@dataclass(frozen=True)
class Evidence:
    """One runtime that failed.

    Attributes:
        result: The verdict.
        expectations: The cases and what was expected, in the order of `result.cases`.
        answers: What the runtime returned, None where it refused.
        runner: The runtime, still loaded.
        reference: What it is measured against.
        layers: The model layer by layer, empty where that could not be traced.
        half: Names of the artifact's tensors that are of a 16-bit float type.
    """

    result: RuntimeResult
    expectations: Sequence[Expectation]
    answers: Sequence[Arrays | None]
    runner: Runner
    reference: Reference
    layers: tuple[LayerResult, ...] = ()
    half: tuple[str, ...] = ()

    def failing(self) -> list[tuple[CaseResult, Expectation, Arrays]]:
        """Returns the cases that failed with an answer on both sides."""
        rows = zip(self.result.cases, self.expectations, self.answers, strict=False)
        return [
            (case, expectation, answer)
            for case, expectation, answer in rows
            if case.status == "failed" and expectation.outputs is not None and answer is not None
        ]

    def born_in(self) -> str | None:
        """Returns the layer where the fault is, as far as that is known."""
        born = next((layer.layer for layer in self.layers if layer.parted and layer.born), None)
        return born or self.result.first_parted_layer

    def ask(self, inputs: Mapping[str, Array]) -> Arrays | None:
        """Returns what the runtime says to other inputs, None where it refuses or has come to an end."""
        try:
            return self.runner.run(inputs)
        except (RuntimeRefusedError, RuntimeDiedError, RuntimeHungError):
            return None

    def expect(self, inputs: Mapping[str, Array]) -> Arrays | None:
        """Returns what the reference says to other inputs, None where it refuses."""
        return self.reference.answer((Case("asked", inputs, "asked"),))[0].outputs

    def draw(self, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
        """Returns fair inputs of the given sizes."""
        return draw_case(self.reference.inputs, self.reference.roles, sizes, seed)

    def sizes(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """Returns the dynamic dimensions of a case by name."""
        dims = [
            (dim, size)
            for spec in self.reference.inputs
            for dim, size in zip(spec.shape, inputs[spec.name].shape, strict=True)
        ]
        return {dim: size for dim, size in dims if isinstance(dim, str)}

    @property
    def keras(self) -> KerasReference | None:
        """The reference where it is a Keras model."""
        return self.reference if isinstance(self.reference, KerasReference) else None


def close(actual: Array, expected: Array, allowed: float) -> bool:
    """Whether two arrays have one shape and differ by no more than is allowed, NaN and infinities included."""
    if actual.shape != expected.shape:
        return False
    return bool(
        np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=0, atol=allowed, equal_nan=True)
    )


def distance(actual: Array, expected: Array) -> float:
    """Returns the largest absolute difference; infinity where shapes differ or a NaN meets a number."""
    if actual.shape != expected.shape or actual.dtype.kind not in "fiubV":
        return float("inf")
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(difference.max(initial=0.0)) if np.isfinite(difference).all() else float("inf")
