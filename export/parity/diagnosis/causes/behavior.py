"""Detects causes by further runs of the runtime: with equal inputs, in other batches, and at other sizes."""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.errors import RuntimeFailedError, sentence
from keras_pe.export.model.sizes.dimensions import sizes_in_words
from keras_pe.export.parity.diagnosis.causes.dimension_tests import dimensions
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.results import Array, CaseResult, CaseStatus, Cause, Finding, OtherValue, RunStatus
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CANDIDATES = 12  # each takes one to three runs of the model and of the artifact
_MOST_AXES, _MOST_CONSTANTS = 8, 64
_LARGEST = 9999
_SMALL = range(2, 10)
_LEAST_LIMIT = 2  # least size at which an artifact must agree, since every layer works on one element
_LEAST_ROWS = 4  # least rows of a table that ends; a window as long as the sequence hides its stride and its axis

_CAUSES = {
    RunStatus.CRASHED: Cause.CRASH,
    RunStatus.HUNG: Cause.HANG,
    RunStatus.NOT_LOADED: Cause.NOT_LOADED,
    RunStatus.INVALID_ANSWER: Cause.INVALID_ANSWER,
}


def process_end(probe: Probe) -> Iterator[Finding]:
    """Detects a runtime that crashed, hung, gave no valid answer, or could not open the artifact."""
    if probe.run.result.status in _CAUSES:
        yield Finding(_CAUSES[probe.run.result.status], sentence(probe.run.result.error))


def refused_every_case(probe: Probe) -> Iterator[Finding]:
    """Detects a runtime that refuses every case, so that nothing can be compared."""
    if all(answer is None for answer in probe.run.answers):
        yield from refused_cases(probe)


def refused_cases(probe: Probe) -> Iterator[Finding]:
    """Detects cases that the runtime refuses and the model answers, if none of its answers is wrong."""
    refused = [case for case, each, _ in probe.rows if case.status == CaseStatus.FAILED and each.outputs is not None]
    if refused and not probe.failing():
        text = f"The runtime refuses {len(refused)} of {len(probe.run.result.cases)} cases, first {refused[0].name!r}"
        yield Finding(Cause.REFUSED_CASE, f"{text}: {sentence(refused[0].error)}")


def non_determinism(probe: Probe) -> Iterator[Finding]:
    """Detects different answers to equal inputs, if the reference repeats its answers."""
    for result, expectation, _ in answering(probe):
        inputs = expectation.case.inputs
        one, two = probe.ask(inputs), probe.ask(inputs)
        if one is None or two is None:
            return
        difference = max((distance(one[name], two[name]) for name in one if name in two), default=0.0)
        allowed = max((c.tolerance for c in result.comparisons), default=0.0)
        if difference > allowed:
            text = f"Two runs with the same inputs differ by {difference:.1e}."
            yield Finding(Cause.NON_DETERMINISM, text, _first_that_shakes(probe, inputs))
        return


def _first_that_shakes(probe: Probe, inputs: Mapping[str, Array]) -> str | None:
    """Returns the first layer at fault whose output changes between runs; None if no tensor shows it."""
    shown = [fault for fault in probe.faults if fault.tensor is not None]
    if not shown:
        return None
    try:
        one, two = (probe.runner.intermediates(inputs, {}) for _ in range(2))
    except RuntimeFailedError as error:
        probe.note("a second look inside the artifact", error)
        return None
    for fault in shown:
        name = str(fault.tensor)
        if name in one and name in two and distance(one[name], two[name]) > fault.tolerance:
            return fault.layer
    return None


def frozen_state(probe: Probe) -> Iterator[Finding]:
    """Detects state that the model keeps from call to call and the artifact does not."""
    index = {each.case.name: i for i, each in enumerate(probe.run.expectations)}
    for i, each in enumerate(probe.run.expectations[: len(probe.run.answers)]):
        first = index.get(each.case.repeats or "", i)
        expected, before = each.outputs, probe.run.expectations[first].outputs
        actual, earlier = probe.run.answers[i], probe.run.answers[first]
        if first == i or expected is None or before is None or actual is None or earlier is None:
            continue
        for name in expected:
            if name in actual and name in earlier:
                moved, still = distance(expected[name], before[name]), distance(actual[name], earlier[name])
                if moved > 0 and still < moved / 100:
                    text = f"A second run changes the model's output by {moved:.1e}, and the artifact's by {still:.1e}."
                    yield Finding(Cause.FROZEN_STATE, text, output=name)


def batch_dependence(probe: Probe) -> Iterator[Finding]:
    """Detects a row that changes with the other rows of the batch, unlike the reference's row."""
    if not _share_dynamic_rows(probe):
        return
    for result, expectation, _ in answering(probe):
        inputs = expectation.case.inputs
        if next(iter(inputs.values())).shape[0] < 2:
            continue
        alike = {name: np.repeat(array[:1], len(array), axis=0) for name, array in inputs.items()}
        moved = _first_row_moves(probe.ask(inputs), probe.ask(alike))
        calm = _first_row_moves(probe.expect(inputs), probe.expect(alike))
        allowed = max((c.tolerance for c in result.comparisons), default=0.0)
        if moved > 2 * allowed and moved > 100 * calm:
            text = f"If the other rows change, row 0 changes by {moved:.1e}, and by {calm:.1e} in the model."
            yield Finding(Cause.DEPENDENCE_ON_BATCH, text, probe.layer)
        return


def frozen_size(probe: Probe) -> Iterator[Finding]:
    """Detects a size that is dynamic in the model and fixed in the artifact."""
    declared = {spec.name: spec.shape for spec in probe.runner.inputs} if probe.run.answers else {}
    for spec in probe.reference.inputs:
        for dim, fixed in zip(spec.shape, declared.get(spec.name, ()), strict=False):
            if isinstance(dim, str) and isinstance(fixed, int):
                text = f"Input {spec.name!r} accepts only {sizes_in_words({dim: fixed})}."
                yield Finding(Cause.FROZEN_LENGTH, text, parameters=_size(dim, fixed))
                return
    wrong = [case for case in probe.run.result.cases if case.error or any(c.problem for c in case.comparisons)]
    if len(wrong) < 2:
        return
    for dimension, size in itertools.product(dimensions(probe), _frozen_candidates(probe)):
        if size not in dimension.taken or not dimension.agrees_at(size):
            continue
        others = dimension.neighbors(size)
        if others and not any(map(dimension.agrees_at, others)):
            text = f"The artifact agrees at {dimension.size_text(size)}, but not at {' and '.join(map(str, others))}."
            yield Finding(Cause.FROZEN_LENGTH, text, probe.layer, parameters=_size(dimension.name, size))
            return


def clamped_size(probe: Probe) -> Iterator[Finding]:
    """Detects a table that ends: the artifact agrees up to a size and differs beyond it."""
    for dimension in dimensions(probe):
        ends = dimension.ends()
        if ends is None:
            continue
        low, high = ends
        answer, expected = (each(dimension.draw(high)) for each in (probe.ask, probe.expect))
        # A table that ends keeps all shapes; another stride does not.
        shapes, others = ({name: a.shape for name, a in (each or {}).items()} for each in (answer, expected))
        if answer is None and low >= _LEAST_LIMIT:
            text = f"The artifact agrees up to {dimension.size_text(low)}, and refuses {high}."
            yield Finding(Cause.LENGTH_LIMIT, text, probe.layer, parameters=_size(dimension.name, low))
        elif answer is not None and shapes == others and low >= _LEAST_ROWS and not probe.faults:
            # With known layers at fault, their rows have been compared already.
            text = f"The artifact agrees up to {dimension.size_text(low)}, but not from {high} on."
            yield Finding(Cause.CLAMPED_TABLE, text, probe.layer, parameters=_size(dimension.name, low))


def _size(dimension: str, size: int) -> tuple[OtherValue, ...]:
    """Returns the only or the last size at which an artifact agrees, as the parameters of a finding."""
    return (OtherValue(dimension, None, size),)


def answering(probe: Probe) -> list[tuple[CaseResult, Expectation, Arrays]]:
    """Returns the failing cases of a runtime that can still run."""
    return probe.failing() if probe.run.result.status == RunStatus.COMPARED else []


def _share_dynamic_rows(probe: Probe) -> bool:
    """Whether the first dimension of all inputs is one dynamic dimension, which is the batch."""
    first = {spec.shape[0] if spec.shape else 0 for spec in probe.reference.inputs}
    return len(first) == 1 and isinstance(first.pop(), str)


def _first_row_moves(one: Arrays | None, two: Arrays | None) -> float:
    if one is None or two is None:
        return 0.0
    return max((distance(one[name][:1], two[name][:1]) for name in one if one[name].ndim), default=0.0)


def _frozen_candidates(probe: Probe) -> list[int]:
    """Returns sizes that an artifact may fix.

    They come from shapes of wrong outputs, sizes of passing cases, constants of the artifact, and small integers.
    """
    found: list[int] = []
    for result, expectation, _ in probe.rows:
        if result.status == CaseStatus.PASSED:
            found += probe.sizes(expectation.case.inputs).values()
    for _, expectation, answer in probe.rows:
        for name, expected in (expectation.outputs or {}).items():
            actual = (answer or {}).get(name)
            if actual is not None and actual.shape != expected.shape:
                found += actual.shape
    constants = probe.runner.weights()
    for name in itertools.islice(constants, _MOST_CONSTANTS):
        probe.budget.check()
        constant = constants[name]
        found += constant.shape
        if constant.dtype.kind in "iu" and constant.size <= _MOST_AXES:  # the constant may be a shape
            found += map(int, constant.ravel())
    seen = [size for size in dict.fromkeys(found) if 1 < size <= _LARGEST]
    return [*dict.fromkeys([*seen[:_MOST_CANDIDATES], *_SMALL])]
