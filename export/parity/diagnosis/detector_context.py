"""The data and the operations that a detector of causes may use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from keras_pe.export.artifacts.artifact import dynamic_sizes
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.comparison.inputs.sweep import draw_case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.comparison.run_cases import Run
from keras_pe.export.errors import RuntimeFailedError, first_line
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.progress import Budget, OutOfTimeError
from keras_pe.export.results import Array, CaseResult, CaseStatus, Problem
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

Found = TypeVar("Found")


class Row(NamedTuple):
    """One case: its result, the expected outputs, and the actual outputs; None if the runtime refuses the case."""

    result: CaseResult
    expectation: Expectation
    answer: Arrays | None


@dataclass(frozen=True)
class Probe:
    """One runtime that failed.

    Attributes:
        run: The verdict, with the expected and the actual outputs in the order of the cases.
        runner: The runtime, still loaded.
        reference: The reference of the differences.
        roles: The roles of the inputs.
        faults: The layers at fault, in the order of computation; empty if unknown.
        others: Returns a fault in each other case.
        sound_weights: The paths of the weights that the artifact is known to store as the model does.
        constants: Returns the artifact's small constants.
        is_sound_inside: Whether the artifact, run with inner tensors and without optimizations, agrees with Keras.
        budget: The remaining time.
        refusals: Failed attempts with their errors, for the report of an unknown cause.
        not_reached: Attempts without time.
        results: The results of `once`, each with the arguments, which keeps their identities.
    """

    run: Run
    runner: Runner
    reference: Reference
    roles: Mapping[str, Role] = field(default_factory=dict)
    faults: tuple[LayerFault, ...] = ()
    others: Callable[[LayerFault], Iterable[LayerFault]] = lambda fault: ()
    sound_weights: frozenset[str] = frozenset()
    constants: Callable[[], Sequence[Array]] = tuple
    is_sound_inside: bool = False
    budget: Budget = field(default_factory=Budget)
    refusals: list[str] = field(default_factory=list)
    not_reached: list[str] = field(default_factory=list)
    results: dict[tuple[Any, ...], tuple[Any, Any]] = field(default_factory=dict)

    def attempt(self, what: str, search: Callable[["Probe"], Iterable[Found]]) -> list[Found]:
        """Returns the findings of a search until its end, the end of the time, or an error, which is recorded."""
        found: list[Found] = []
        self.budget.tell(what)
        try:
            self.budget.check()
            for each in search(self):
                found.append(each)
                self.budget.check()
        except OutOfTimeError:
            self.not_reached.append(what)
        except Exception as error:  # layers and runtimes raise errors of any type; the comparisons must survive them
            self.note(what, error)
        return found

    def once(self, compute: Callable[..., Found], *arguments: Any) -> Found:
        """Returns the result of a function, which is called once in a diagnosis with the same objects."""
        key = (compute, *map(id, arguments))
        if key not in self.results:
            self.results[key] = arguments, compute(*arguments)
        found: Found = self.results[key][1]
        return found

    def note(self, what: str, error: Exception) -> None:
        """Records the reason of a failed attempt."""
        refusal = f"{what} ({first_line(error)})"
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    @property
    def layer(self) -> str | None:
        """The first layer at fault, if known."""
        return self.faults[0].layer if self.faults else None

    def calls_at_fault(self, fault: LayerFault) -> str:
        """Returns a sentence on which calls of a shared layer are at fault; empty if all calls are."""
        numbers = self.some_wrong_calls(fault)
        return f" Only call {' and '.join(map(str, numbers))} of {len(fault.around.calls)} is wrong." if numbers else ""

    def some_wrong_calls(self, fault: LayerFault) -> list[int]:
        """Returns the numbers of the calls of a shared layer that are at fault, from 1; empty if all calls are."""
        wrong = {each.call.path for each in self.faults if each.call.layer is fault.call.layer}
        numbers = [number for number, path in enumerate(fault.around.calls, 1) if path in wrong]
        return numbers if len(numbers) < len(fault.around.calls) else []

    @property
    def rows(self) -> list[Row]:
        """The cases with the expected and the actual outputs."""
        run = self.run
        return [Row(*each) for each in zip(run.result.cases, run.expectations, run.answers, strict=False)]

    def failing(self) -> list[tuple[CaseResult, Expectation, Arrays]]:
        """Returns the failed cases that both sides have answered."""
        return [
            (case, expectation, answer)
            for case, expectation, answer in self.rows
            if case.status == CaseStatus.FAILED and expectation.outputs is not None and answer is not None
        ]

    @property
    def has_wrong_values(self) -> bool:
        """Whether an output that both sides return has wrong values. Missing and extra outputs do not count."""
        absent = (Problem.MISSING, Problem.EXTRA)
        compared = [each for case in self.run.result.cases for each in case.comparisons]
        return not compared or any(not each.passed and each.problem not in absent for each in compared)

    def ask(self, inputs: Mapping[str, Array]) -> Arrays | None:
        """Returns the runtime's outputs for other inputs; None if it refuses them or has ended."""
        self.budget.check()
        try:
            return self.runner.run(inputs)
        except RuntimeFailedError as error:
            self.note("other inputs to the runtime", error)
            return None

    def expect(self, inputs: Mapping[str, Array]) -> Arrays | None:
        """Returns the reference's outputs for other inputs; None if it refuses them."""
        try:
            return self.reference.expect(inputs)
        except RuntimeFailedError as error:
            self.note("other inputs to the reference", error)
            return None

    def draw(self, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
        """Returns valid inputs with some sizes."""
        return draw_case(self.reference.inputs, self.roles, sizes, seed)

    def sizes(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """Returns the dynamic dimensions of a case by name."""
        return dynamic_sizes(self.reference.inputs, inputs)
