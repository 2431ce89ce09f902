"""The sentences of a check by cases: results with equal faults in groups, and further remarks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keras_pe.display import shown_bytes
from keras_pe.export.artifacts.quantized_tensors import count_quantized
from keras_pe.export.errors import sentence
from keras_pe.export.parity.presentation.figures import number
from keras_pe.export.parity.presentation.report_content import artifact_names, causes, skip_statements
from keras_pe.export.parity.reports.document import Statement
from keras_pe.export.results import (
    CaseResult,
    CaseStatus,
    CheckResults,
    Comparison,
    Problem,
    Proof,
    RunStatus,
    RuntimeResult,
)
from keras_pe.export.runtimes.runtime import RuntimeName

_ON_THE_CPU = "CPUExecutionProvider"


@dataclass(frozen=True)
class Group:
    """Results of one artifact in variants of one runtime, with the same verdict, causes and layers.

    Attributes:
        results: At least one, in the order of the check.
        artifact: Name of the artifact in the report, or its format.
    """

    results: tuple[RuntimeResult, ...]
    artifact: str = ""

    @property
    def first(self) -> RuntimeResult:
        """The result that stands for all."""
        return self.results[0]

    @property
    def name(self) -> str:
        """The runtimes: "onnxruntime, 5 levels", or the one runtime's name."""
        if len(self.results) == 1:
            return self.first.runtime
        family = str(RuntimeName.parse(self.first.runtime).any_variant)
        return f"{family}, {len(self.results)} {'levels' if family == 'onnxruntime' else 'variants'}"

    @property
    def passed(self) -> bool:
        """The verdict that all share."""
        return self.first.passed

    @property
    def worst(self) -> tuple[RuntimeResult, str, Comparison] | None:
        """The result, case and comparison of the largest difference that fails, or of the largest of all if none fails.

        None where nothing was compared.
        """
        found = [
            (result, case.name, each) for result in self.results for case in result.cases for each in case.comparisons
        ]
        return max(found, key=lambda row: (not row[2].passed, row[2].max_abs_diff), default=None)

    @property
    def compared(self) -> tuple[Comparison, ...]:
        """The comparisons of values, in all results and cases."""
        every = (each for result in self.results for case in result.cases for each in case.comparisons)
        return tuple(each for each in every if each.problem in (None, Problem.NONFINITE, Problem.DECISIONS))


def group_results(results: Sequence[RuntimeResult]) -> tuple[Group, ...]:
    """Returns results in groups, in the order of the check."""
    names = artifact_names(result.subject for result in results)
    groups: dict[object, list[RuntimeResult]] = {}
    for result in results:
        family = RuntimeName.parse(result.runtime).any_variant
        causes = (result.findings, result.layers, result.proof, result.error)
        key = (result.subject, family, result.passed, result.status, len(result.cases), causes)
        groups.setdefault(key, []).append(result)
    return tuple(Group(tuple(alike), names[alike[0].subject] or alike[0].format) for alike in groups.values())


def statements(reference: str, group: Group) -> Iterator[Statement]:
    """Yields what is wrong with a group: causes, then the proof, the worst comparison and the errors."""
    result = group.first
    explained = list(causes(result.findings))
    yield from explained
    if result.proof is not None:
        yield Statement("proof", prove(result.proof))
    message = " ".join(each.text for each in explained)
    if result.error and sentence(result.error) not in message:
        has_run = result.status is RunStatus.COMPARED
        yield Statement("error", result.error if has_run else f"{result.status}: {result.error}")
    worst = group.worst
    if worst is not None and not worst[2].passed:
        yield Statement("worst", describe(reference, worst[0].runtime, worst[1], worst[2]))
    errors = [f"{case.name}: {case.error}" for case in result.cases if case.status is CaseStatus.FAILED and case.error]
    if errors:
        more = f" (and {len(errors) - 1} more cases)" if len(errors) > 1 else ""
        yield Statement("error", f"with {errors[0]}{more}")


def coverage(found: CheckResults) -> Iterator[str]:
    """Yields what the cases exercised, and of each artifact the weights compared, quantized tensors, branches taken."""
    sizes = [f"{name} {', '.join(map(str, each))}" for name, each in found.coverage.sizes.items() if each]
    tables = [f"{each.read:,} of {each.rows:,} rows read by {each.input!r}" for each in found.coverage.tables]
    if sizes or tables:
        yield f"Exercised: {'; '.join([*sizes, *tables])}."
    names = artifact_names([*(each.subject for each in found.results), *found.coverage.signatures])
    for signature in found.coverage.signatures:
        yield f"{names[signature]} did not run: no case has its sizes."
    read = {each.subject: each.weights for each in found.results if each.weights and each.weights.count}
    for artifact, weights in read.items():
        share = f"{weights.compared} of {weights.count} weights"
        nbytes = f"{shown_bytes(weights.compared_nbytes)} of {shown_bytes(weights.nbytes)}"
        yield f"{names[artifact]}: {share} compared by content, {nbytes}."
    for artifact, tensors in {each.subject: each.quantized for each in found.results if each.quantized}.items():
        yield f"{names[artifact]}: {count_quantized(tensors)} have integers with a scale."
    taken = {each.subject: each.branches for each in found.results if each.branches and each.branches.count}
    for artifact, branches in taken.items():
        missed = "".join(f"; {name!r} was never {value}" for name, value in branches.missed.items())
        yield f"{names[artifact]}: {branches.taken} of {branches.count} branches of conditions taken{missed}."


def acceptance_statements(found: CheckResults) -> Iterator[Statement]:
    """Yields what differs by no more than the user accepts: by how much, where and why."""
    for group in group_results([each for each in found.results if each.is_accepted]):
        largest = max(each.max_abs_diff for each in group.compared)
        share = max(each.tolerance_ratio for each in group.compared)
        by = f"max |difference| {number(largest)}, at most {share:.2g} times what is allowed"
        why = " ".join(each.text for each in causes(group.first.findings) if each.label == "cause")
        message = (
            f"{group.name} on {group.artifact} fails the strict tolerance and is accepted ({found.allowance}): {by}."
        )
        yield Statement("accepted", f"{message} {why}")


def prove(proof: Proof) -> str:
    """Returns what replacing the layers at fault has shown."""
    layers = " and ".join(map(repr, proof.layers))
    numbers = f"it is off by {number(proof.max_abs_diff)}, allowed {number(proof.tolerance)}"
    shown = "agrees with Keras" if proof.holds else "still differs elsewhere"
    return f"With Keras' output of {layers} instead of its own, the artifact {shown}: {numbers}."


def describe(reference: str, runtime: str, case: str, comparison: Comparison) -> str:
    """Returns one failed comparison as a sentence."""
    head = f"{runtime} differs from {reference} in output {comparison.output!r} ({case}): "
    if comparison.worst_index is None:
        return head + f"{comparison.problem_in_words}."
    if comparison.problem is Problem.DECISIONS:
        ties = f", {comparison.tied_decisions:,} of them ties" if comparison.tied_decisions else ""
        return head + (
            f"{comparison.problem_in_words}{ties}, max |difference| {number(comparison.max_abs_diff)}. Rounding does "
            "not explain the change. Accept a share of changed decisions with allow_changed=... (--allow-changed)."
        )
    values = ""
    if comparison.truth is not None:
        values = f" (expected {comparison.truth:.9g}, actual {comparison.actual:.9g})"
    out = round(comparison.fraction_out_of_tolerance * comparison.count)
    largest = number(comparison.max_abs_diff)
    at = f"at {list(comparison.worst_index)}{values}, allowed {comparison.tolerance:.1e}"
    if comparison.worst_abs_diff != comparison.max_abs_diff:  # the tolerance depends on the value
        return head + (
            f"|difference| {number(comparison.worst_abs_diff)} {at}; {out:,} of {comparison.count:,} values are out. "
            f"The largest of all is {largest}."
        )
    return head + f"max |difference| {largest} {at}; {out:,} of {comparison.count:,} values are out."


def remarks(found: CheckResults) -> Iterator[Statement]:
    """Yields what neither the failures nor the tables say."""
    yield from acceptance_statements(found)
    yield from skip_statements(found)
    for runtime, providers in {each.runtime: each.providers for each in found.results}.items():
        if set(providers) - {_ON_THE_CPU}:
            placed = ", ".join(f"{count} nodes on {provider}" for provider, count in sorted(providers.items()))
            yield Statement("", f"{runtime}: {placed}")
    gaps = [c.precision_gap for r in found.results for case in r.cases for c in case.comparisons if c.precision_gap]
    if gaps:
        yield Statement(
            "",
            "The artifact computes in float32 and is compared in float32. "
            f"The model in its own precision differs from its float32 values by up to {max(gaps):.1e}.",
        )
    left_out = {case.error: case.name for each in found.results for case in each.cases if not _is_explained(case)}
    for reason, name in left_out.items():
        yield Statement("left out", f"{name}: {reason}. Pass your own cases instead (inputs=...)")
    refused = [case for case in found.cases if case.error]
    if refused:
        names = "; ".join(case.name for case in refused)
        yield Statement("", f"refused by the reference: {names} ({refused[0].error})")
        if len(refused) == len(found.cases):
            hint = "pass the valid ranges of the inputs (ranges=...) or your own cases (inputs=...)"
            yield Statement("", f"no case was valid: {hint}")


def _is_explained(case: CaseResult) -> bool:
    """Whether a case was compared, or the sentence about the reference gives the reason."""
    return case.status is not CaseStatus.SKIPPED or not case.error
