"""Causes that show when a runtime is asked again: the same, in another company, at another length."""

import re
from collections.abc import Iterator

import numpy as np

from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.parity.diagnosis.causes.lengths import agrees_at, agrees_up_to, first_sizes
from keras_pe.export.parity.diagnosis.probe import Probe, distance
from keras_pe.export.results import CaseResult, Finding
from keras_pe.export.runtimes.runtime import Arrays

_MOST_PROBES = 12


def process_end(probe: Probe) -> Iterator[Finding]:
    """A runtime that took its process with it, did not answer, or could not open the artifact."""
    causes = {"crashed": "crash", "hung": "hang", "not loaded": "not loaded"}
    if probe.result.status in causes:
        yield Finding(causes[probe.result.status], f"{probe.result.error}.")


def non_determinism(probe: Probe) -> Iterator[Finding]:
    """Another answer to the same input, where the reference gives the same."""
    for result, expectation, _ in _answering(probe):
        inputs = expectation.case.inputs
        one, two = probe.ask(inputs), probe.ask(inputs)
        if one is None or two is None:
            return
        apart = max((distance(one[name], two[name]) for name in one if name in two), default=0.0)
        allowed = max((c.tolerance for c in result.comparisons), default=0.0)
        if apart > allowed:
            yield Finding("non-determinism", f"The same input twice gives outputs that are {apart:.1e} apart.")
        return


def frozen_state(probe: Probe) -> Iterator[Finding]:
    """A state that the model keeps from call to call, and the artifact does not."""
    index = {each.case.name: i for i, each in enumerate(probe.expectations)}
    for i, each in enumerate(probe.expectations[: len(probe.answers)]):
        first = index.get(each.case.repeats or "", i)
        expected, before = each.outputs, probe.expectations[first].outputs
        actual, earlier = probe.answers[i], probe.answers[first]
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


def batch_dependence(probe: Probe) -> Iterator[Finding]:
    """A row that changes when other rows do, where the reference's does not."""
    if any(spec.shape[:1] != ("batch",) for spec in probe.reference.inputs):
        return
    for result, expectation, _ in _answering(probe):
        inputs = expectation.case.inputs
        if next(iter(inputs.values())).shape[0] < 2:
            continue
        alike = {name: np.repeat(array[:1], len(array), axis=0) for name, array in inputs.items()}
        moved = _first_row_moves(probe.ask(inputs), probe.ask(alike))
        calm = _first_row_moves(probe.expect(inputs), probe.expect(alike))
        allowed = max((c.tolerance for c in result.comparisons), default=0.0)
        if moved > 2 * allowed and moved > 100 * calm:
            text = f"Row 0 moves by {moved:.1e} when the other rows change; the model's moves by {calm:.1e}."
            yield Finding("dependence on the batch", text, probe.layer)
        return


def frozen_length(probe: Probe) -> Iterator[Finding]:
    """A size that is dynamic in the model and fixed in the artifact."""
    declared = {spec.name: spec.shape for spec in probe.runner.inputs} if probe.answers else {}
    for spec in probe.reference.inputs:
        for dim, fixed in zip(spec.shape, declared.get(spec.name, ()), strict=False):
            if isinstance(dim, str) and isinstance(fixed, int):
                yield Finding("frozen length", f"Input {spec.name!r} takes {dim} {fixed} only.")
                return
    wrong = [case for case in probe.result.cases if case.error or any(c.problem for c in case.comparisons)]
    said = " ".join(case.error + " ".join(c.problem or "" for c in case.comparisons) for case in wrong)
    lengths = [int(number) for number in dict.fromkeys(re.findall(r"\b\d{1,4}\b", said))]
    if len(wrong) < 2 or "length" not in probe.sizes(probe.expectations[0].case.inputs):
        return
    for length in [n for n in lengths if n > 1][:_MOST_PROBES]:
        if agrees_at(probe, length) and not agrees_at(probe, length + 1) and not agrees_at(probe, length - 1):
            text = f"It agrees at length {length}, and not at {length - 1} and {length + 1}."
            yield Finding("frozen length", text, probe.layer)
            return


def clamped_length(probe: Probe) -> Iterator[Finding]:
    """A table that ends: right up to a length, other numbers from there on."""
    low = agrees_up_to(probe)
    if low is None:
        return
    if probe.ask(probe.draw({**first_sizes(probe), "length": low + 1})) is None:
        yield Finding("length limit", f"It agrees up to length {low} and refuses {low + 1}.", probe.layer)
    elif low > 1:
        yield Finding("clamped table", f"It agrees up to length {low}, and not from {low + 1} on.", probe.layer)


def _answering(probe: Probe) -> list[tuple[CaseResult, Expectation, Arrays]]:
    """Returns the failing cases of a runtime that can still be asked."""
    return probe.failing() if probe.result.status == "compared" else []


def _first_row_moves(one: Arrays | None, two: Arrays | None) -> float:
    if one is None or two is None:
        return 0.0
    return max((distance(one[name][:1], two[name][:1]) for name in one if one[name].ndim), default=0.0)
