"""Causes that show when a runtime is asked again: the same, in another company, at another length."""

import re
from collections.abc import Iterator

import numpy as np

from keras_pe.export.parity.diagnosis.causes.lengths import agrees_at, agrees_up_to, first_sizes
from keras_pe.export.parity.diagnosis.probe import Evidence, distance
from keras_pe.export.parity.references.reference import Expectation
from keras_pe.export.parity.results import CaseResult, Finding
from keras_pe.export.runtimes.runtime import Arrays

_MOST_PROBES = 12


def process_end(evidence: Evidence) -> Iterator[Finding]:
    """A runtime that took its process with it, did not answer, or could not open the artifact."""
    causes = {"crashed": "crash", "hung": "hang", "not loaded": "not loaded"}
    if evidence.result.status in causes:
        yield Finding(causes[evidence.result.status], f"{evidence.result.message}.")


def non_determinism(evidence: Evidence) -> Iterator[Finding]:
    """Another answer to the same input, where the reference gives the same."""
    for result, expectation, _ in _answering(evidence):
        inputs = expectation.case.inputs
        one, two = evidence.ask(inputs), evidence.ask(inputs)
        if one is None or two is None:
            return
        apart = max((distance(one[name], two[name]) for name in one if name in two), default=0.0)
        allowed = max((c.allowed for c in result.comparisons), default=0.0)
        if apart > allowed:
            yield Finding("non-determinism", f"The same input twice gives outputs that are {apart:.1e} apart.")
        return


def frozen_state(evidence: Evidence) -> Iterator[Finding]:
    """A state that the model keeps from call to call, and the artifact does not."""
    index = {each.case.name: i for i, each in enumerate(evidence.expectations)}
    for i, each in enumerate(evidence.expectations[: len(evidence.answers)]):
        first = index.get(each.case.again or "", i)
        expected, before = each.outputs, evidence.expectations[first].outputs
        actual, earlier = evidence.answers[i], evidence.answers[first]
        if first == i or expected is None or before is None or actual is None or earlier is None:
            continue
        for name in expected:
            if name in actual and name in earlier:
                moved, still = distance(expected[name], before[name]), distance(actual[name], earlier[name])
                if moved > 0 and still < moved / 100:
                    text = (
                        f"The same input again moves the model's output by {moved:.1e}, the artifact's by {still:.1e}."
                    )
                    yield Finding("frozen state", text, output=name)


def batch_dependence(evidence: Evidence) -> Iterator[Finding]:
    """A row that changes when other rows do, where the reference's does not."""
    if any(spec.shape[:1] != ("batch",) for spec in evidence.reference.inputs):
        return
    for result, expectation, _ in _answering(evidence):
        inputs = expectation.case.inputs
        if next(iter(inputs.values())).shape[0] < 2:
            continue
        alike = {name: np.repeat(array[:1], len(array), axis=0) for name, array in inputs.items()}
        moved = _first_row_moves(evidence.ask(inputs), evidence.ask(alike))
        calm = _first_row_moves(evidence.expect(inputs), evidence.expect(alike))
        allowed = max((c.allowed for c in result.comparisons), default=0.0)
        if moved > 2 * allowed and moved > 100 * calm:
            text = f"Row 0 moves by {moved:.1e} when the other rows change; the model's moves by {calm:.1e}."
            yield Finding("dependence on the batch", text, evidence.born_in())
        return


def frozen_length(evidence: Evidence) -> Iterator[Finding]:
    """A size that is dynamic in the model and fixed in the artifact."""
    declared = {spec.name: spec.shape for spec in evidence.runner.inputs} if evidence.answers else {}
    for spec in evidence.reference.inputs:
        for dim, fixed in zip(spec.shape, declared.get(spec.name, ()), strict=False):
            if isinstance(dim, str) and isinstance(fixed, int):
                yield Finding("frozen length", f"Input {spec.name!r} takes {dim} {fixed} only.")
                return
    wrong = [case for case in evidence.result.cases if case.message or any(c.problem for c in case.comparisons)]
    said = " ".join(case.message + " ".join(c.problem or "" for c in case.comparisons) for case in wrong)
    lengths = [int(number) for number in dict.fromkeys(re.findall(r"\b\d{1,4}\b", said))]
    if len(wrong) < 2 or "length" not in evidence.sizes(evidence.expectations[0].case.inputs):
        return
    for length in [n for n in lengths if n > 1][:_MOST_PROBES]:
        if agrees_at(evidence, length) and not agrees_at(evidence, length + 1) and not agrees_at(evidence, length - 1):
            text = f"It agrees at length {length}, and not at {length - 1} and {length + 1}."
            yield Finding("frozen length", text, evidence.born_in())
            return


def clamped_length(evidence: Evidence) -> Iterator[Finding]:
    """A table that ends: right up to a length, other numbers from there on."""
    low = agrees_up_to(evidence)
    if low is None:
        return
    if evidence.ask(evidence.draw({**first_sizes(evidence), "length": low + 1})) is None:
        yield Finding("length limit", f"It agrees up to length {low} and refuses {low + 1}.", evidence.born_in())
    elif low > 1:
        yield Finding("clamped table", f"It agrees up to length {low}, and not from {low + 1} on.", evidence.born_in())


def _answering(evidence: Evidence) -> list[tuple[CaseResult, Expectation, Arrays]]:
    """Returns the failing cases of a runtime that can still be asked."""
    return evidence.failing() if evidence.result.status == "compared" else []


def _first_row_moves(one: Arrays | None, two: Arrays | None) -> float:
    if one is None or two is None:
        return 0.0
    return max((distance(one[name][:1], two[name][:1]) for name in one if one[name].ndim), default=0.0)
