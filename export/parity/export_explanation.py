"""Checks an artifact that an export has refused to publish, and returns the cause and the layer of the difference."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.role import range_roles
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.parity.presentation.report_content import explain as sentence_on
from keras_pe.export.progress import DIAGNOSIS_SECONDS, Budget, OutOfTimeError
from keras_pe.export.results import Array, Finding
from keras_pe.export.runtimes.runner import Runner

_SEED = 0  # the default seed of a check


def explain(runner: Runner, path: Path, reference: KerasReference, inputs: Mapping[str, Array]) -> Finding | None:
    """Returns the first cause of a difference, with the evidence of all causes; None if the artifact agrees.

    The time limit of a diagnosis covers the whole call, including the runs of the model.

    Args:
        runner: The runtime.
        path: The artifact.
        reference: The model as exported.
        inputs: A case in which the two differ.
    """
    budget = Budget(DIAGNOSIS_SECONDS)
    reference.roles = range_roles(reference.signature.values.ranges, reference.roles)
    expectations = list(_answers(reference, inputs, budget))
    run = run_cases(runner, runner.spec, path, reference, expectations)
    if run.result.passed:
        return None
    findings = diagnose(run, runner, reference, reference.roles, budget).findings
    return replace(findings[0], evidence=" ".join(map(sentence_on, findings)))


def _answers(reference: KerasReference, inputs: Mapping[str, Array], budget: Budget) -> Iterator[Expectation]:
    """Yields the model's answers to the refused case, and to the cases of the sweep until the time is up."""
    drawn = sweep(reference.inputs, reference.roles, _SEED, reference.dimensions)
    examples = reference.signature.values.examples
    others = [] if examples else [case for case in drawn if case.repeats is None]
    for case in [Case("refused", inputs, "what the export was refused on"), *others]:
        yield from reference.answer((case,))
        try:
            budget.check()
        except OutOfTimeError:
            return
