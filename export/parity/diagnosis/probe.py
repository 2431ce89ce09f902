"""What a detector of causes may look at, and what it may ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.comparison.inputs.sweep import draw_case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.comparison.run import Run
from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.messages import first_line
from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.results import Array, CaseResult, CaseStatus, RuntimeResult
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

EXPLAINS = 0.02
"""A change explains a difference if it leaves at most this much of it."""

FAILURES = (RuntimeRefusedError, RuntimeDiedError, RuntimeHungError)


@dataclass(frozen=True)
class LayerFault:
    """One call of a layer whose output the artifact gets wrong although what it is given is right.

    Attributes:
        call: What Keras gave the layer, and what it returned.
        index: Which of its outputs is wrong.
        tensor: The artifact's tensor that holds it; None where none was found.
        actual: What that tensor held, in the shape of Keras' output; None where it has no such values.
        tolerance: What is allowed.
        folded: The normalization that an exporter has folded into the layer's weights: the tensor holds its output, and
            the layer's own is nowhere.
        held: What the tensor that is named for the output holds, where that is of another size.
        loose: What the layer was given that the code of the layer around it has computed.
        before: What was there before of a shape that it is given, with the layer or input that it came from.
        reordered: What it was given, by its number, as tensors of the artifact hold it in another order.
        unsure: Layers that it was given from, whose outputs the exporter has named no tensor for: one that holds the
            same may stand beside the way. They may be at fault in its place.
        through: The layer in whose output it shows: for one of these, or where no tensor can be its own.
        sound_weights: The paths of the weights that the artifact is known to hold as the model does.
    """

    call: LayerCall
    index: int
    tensor: str | None
    actual: Array | None
    tolerance: float
    folded: LayerCall | None = None
    held: Array | None = None
    loose: tuple[Array, ...] = ()
    before: tuple[tuple[str, Array], ...] = ()
    reordered: tuple[tuple[int, Array], ...] = ()
    unsure: "tuple[LayerFault, ...]" = ()
    through: "LayerFault | None" = None
    sound_weights: frozenset[str] = frozenset()

    @property
    def expected(self) -> Array:
        """What Keras returned."""
        return self.call.outputs[self.index]

    @property
    def layer(self) -> str:
        """The layer's path, without the number of the call."""
        return self.call.path.partition("#")[0]


@dataclass(frozen=True)
class Probe:
    """One runtime that failed.

    Attributes:
        run: The verdict, and what it was found from.
        runner: The runtime, still loaded.
        reference: What it is measured against.
        roles: What the inputs are for.
        faults: The layers at fault, in the order of computation; empty where that could not be found.
        refusals: What could not be tried, and why: said where nothing explains the failure.
    """

    run: Run
    runner: Runner
    reference: Reference
    roles: Mapping[str, Role] = field(default_factory=dict)
    faults: tuple[LayerFault, ...] = ()
    refusals: list[str] = field(default_factory=list)

    def note(self, what: str, error: Exception) -> None:
        """Keeps why something could not be tried."""
        refusal = f"{what} ({first_line(error)})"
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    @property
    def result(self) -> RuntimeResult:
        """The verdict."""
        return self.run.result

    @property
    def expectations(self) -> Sequence[Expectation]:
        """The cases and what was expected, in the order of `result.cases`."""
        return self.run.expectations

    @property
    def answers(self) -> Sequence[Arrays | None]:
        """What the runtime returned, None where it refused."""
        return self.run.answers

    @property
    def layer(self) -> str | None:
        """The first layer at fault, as far as that is known."""
        return self.faults[0].layer if self.faults else None

    def failing(self) -> list[tuple[CaseResult, Expectation, Arrays]]:
        """Returns the cases that failed with an answer on both sides."""
        rows = zip(self.result.cases, self.expectations, self.answers, strict=False)
        return [
            (case, expectation, answer)
            for case, expectation, answer in rows
            if case.status == CaseStatus.FAILED and expectation.outputs is not None and answer is not None
        ]

    def ask(self, inputs: Mapping[str, Array]) -> Arrays | None:
        """Returns what the runtime says to other inputs, None where it refuses or has come to an end."""
        try:
            return self.runner.run(inputs)
        except FAILURES as error:
            self.note("other inputs to the runtime", error)
            return None

    def expect(self, inputs: Mapping[str, Array]) -> Arrays | None:
        """Returns what the reference says to other inputs, None where it refuses."""
        try:
            return self.reference.expect(inputs)
        except FAILURES as error:
            self.note("other inputs to the reference", error)
            return None

    def draw(self, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
        """Returns fair inputs of the given sizes."""
        return draw_case(self.reference.inputs, self.roles, sizes, seed)

    def sizes(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """Returns the dynamic dimensions of a case by name."""
        dims = [
            (dim, size)
            for spec in self.reference.inputs
            for dim, size in zip(spec.shape, inputs[spec.name].shape, strict=True)
        ]
        return {dim: size for dim, size in dims if isinstance(dim, str)}


def close(actual: Array, expected: Array, tolerance: float) -> bool:
    """Whether two arrays have one shape and differ by no more than is allowed, NaN and infinities included."""
    return actual.shape == expected.shape and distance(actual, expected) <= tolerance


def distance(actual: Array, expected: Array) -> float:
    """Returns the largest absolute difference; infinity where shapes or texts differ or a NaN meets a number."""
    if actual.shape != expected.shape or not {actual.dtype.kind, expected.dtype.kind} <= set("fiubV"):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(difference.max(initial=0.0)) if np.isfinite(difference).all() else float("inf")
