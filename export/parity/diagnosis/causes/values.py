"""Detects causes from names, types and values of the outputs, without running anything."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_pe.export.comparison.float_types import largest
from keras_pe.export.comparison.name_matching import describe_arrays, way_out
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.relations import Change, close
from keras_pe.export.parity.diagnosis.relations.detection import (
    OF_OUTPUTS,
    UNEXPLAINED,
    contradicts,
    find_change,
    holds,
)
from keras_pe.export.results import HALF, Array, Cause, Finding, Problem
from keras_pe.export.runtimes.runtime import as_dtype

# A separate detector looks for rounding, since rounding of a whole output depends on how the output was computed.
_TELLING = 64  # least number of values, since many relations fit fewer
_NOT_OF_OUTPUTS = {*UNEXPLAINED, Cause.ROUNDED_VALUES, Cause.CLAMPED_TABLE}


def swapped_outputs(probe: Probe) -> Iterator[Finding]:
    """Detects two outputs that contain each other's values."""
    for _, expectation, answer in probe.failing()[:1]:
        expected = expectation.outputs or {}
        for one, other in itertools.combinations([name for name in expected if name in answer], 2):
            crossed = _alike(answer[one], expected[other]) and _alike(answer[other], expected[one])
            if crossed and not _alike(expected[other], expected[one]):
                text = f"Outputs {one!r} and {other!r} are exchanged."
                yield Finding(Cause.SWAPPED_OUTPUTS, text, output=one)


def false_declaration(probe: Probe) -> Iterator[Finding]:
    """Detects an output whose shape differs from the artifact's declaration."""
    for each in probe.run.false_declarations:
        text = f"The artifact declares {each.declared}, but returns the shape {each.shape}."
        yield Finding(Cause.FALSE_DECLARATION, text, output=each.declared.name)


def passed_through(probe: Probe) -> Iterator[Finding]:
    """Detects an output that equals one of the inputs."""
    for _, expectation, answer in probe.failing()[:1]:
        for name, actual in answer.items():
            for given, array in expectation.case.inputs.items():
                expected = (expectation.outputs or {}).get(name)
                if expected is not None and actual.size > 1 and close(actual, array, 0.0):
                    yield Finding(Cause.INPUT_RETURNED, f"Output {name!r} is equal to input {given!r}.", output=name)


def changed_outputs(probe: Probe) -> Iterator[Finding]:
    """Detects an output with one relation to the expected output, equal in every case that can show the relation."""
    for name, pairs in _failing_outputs(probe).items():
        telling = [pair for pair in pairs if pair[0].size >= _TELLING] or pairs
        changes = [find_change(*pair, _slack(pair[0]), OF_OUTPUTS) for pair in telling]
        broken = (each for each in changes if each is not None and each.cause is Cause.NOT_A_NUMBER)
        if (change := next(broken, None)) is not None:
            yield Finding(change.cause, str(change), probe.layer, name, parameters=change.values)
            continue
        change = changes[0]
        if change is None or change.cause in _NOT_OF_OUTPUTS:
            continue
        rest = zip(changes[1:], telling[1:], strict=True)
        if not all(change.agrees(each) or holds(change, *pair, _slack(pair[0]), OF_OUTPUTS) for each, pair in rest):
            continue
        if any(contradicts(change, expected, _slack(expected)) for expected in _right_outputs(probe, name)):
            continue
        cause = Cause.START_INDEX_OFF if change.cause is Cause.SHIFTED_ROWS else change.cause
        yield Finding(cause, str(change), output=name, parameters=change.values)


def half_precision(probe: Probe) -> Iterator[Finding]:
    """Detects values that a 16-bit float can represent, if float32 is expected."""
    for name, ((expected, actual), *_) in _failing_outputs(probe).items():
        if expected.dtype == "float32" and not _grid(expected) and (grid := _grid(actual)):
            description = f"{grid} represents all of its values."
            if count := int((np.isfinite(expected) & np.isinf(actual)).sum()):
                description = f"{description} {count:,} of {actual.size:,} values exceed its range and are infinite."
            yield Finding(Cause.HALF_PRECISION, description, probe.layer, name)


def _grid(array: Array) -> str | None:
    """Returns the 16-bit float that represents every value of a float32 array, unless this may be chance."""
    if array.dtype != np.float32 or array.size < 16:
        return None
    telling = array[np.isfinite(array) & (array != np.rint(array))]  # every grid contains small integers
    for name in HALF:
        with np.errstate(over="ignore"):
            if len(np.unique(telling)) >= 16 and (telling.astype(as_dtype(name)).astype(np.float32) == telling).all():
                return name
    return None


def _failing_outputs(probe: Probe) -> dict[str, list[tuple[Array, Array]]]:
    """Returns pairs of expected and actual values of each failing numeric output, for every failing case."""
    pairs = dict[str, list[tuple[Array, Array]]]()
    for result, expectation, answer in probe.failing():
        for comparison in result.comparisons:
            name, expected = comparison.output, (expectation.outputs or {}).get(comparison.output)
            if comparison.passed or expected is None or name not in answer:
                continue
            if {expected.dtype.kind, answer[name].dtype.kind} <= set("fiu") and expected.size:
                pairs.setdefault(name, []).append((expected, answer[name]))
    return pairs


def _right_outputs(probe: Probe, name: str) -> Iterator[Array]:
    """Yields the values of an output in each case in which the artifact returns the right ones."""
    for result, expectation, _ in probe.rows:
        if any(each.output == name and each.passed for each in result.comparisons):
            yield from (array for own, array in (expectation.outputs or {}).items() if own == name)


def _alike(one: Array, other: Array) -> bool:
    return close(one, other, _slack(other))


def _slack(array: Array) -> float:
    """Returns a small difference for the array, to recognize it by; it is not a tolerance."""
    return 1e-5 * largest(array, least=1.0) if array.dtype.kind == "f" else 0.0


def missing_and_extra(probe: Probe) -> Iterator[Finding]:
    """Detects a missing output, an extra output, or a renamed output."""
    for _, expectation, answer in probe.failing()[:1]:
        expected = expectation.outputs or {}
        missing = [name for name in expected if name not in answer]
        extra = [name for name in answer if name not in expected]
        for name in missing:
            allowed = 1e-4  # serves to recognize the output, not to judge it
            twin = next((other for other in extra if close(answer[other], expected[name], allowed)), None)
            changes = ((other, _change_of_output(expected[name], answer[other])) for other in extra)
            if twin is not None:
                extra.remove(twin)
                yield Finding(Cause.RENAMED_OUTPUT, f"Output {twin!r} has the values of {name!r}.", output=name)
            elif found := next(((other, change) for other, change in changes if change is not None), None):
                other, change = found
                extra.remove(other)
                text = f"Output {other!r} is {name!r} with other values."
                yield Finding(Cause.RENAMED_OUTPUT, text, output=name)
                yield Finding(change.cause, str(change), output=name, parameters=change.values)
            else:
                text = f"The artifact returns {describe_arrays(answer)}; the model returns {describe_arrays(expected)}."
                text += f" {way_out(Path(probe.run.result.artifact))}" if extra else ""
                yield Finding(Cause.MISSING_OUTPUT, text, output=name)
        for name in extra:
            yield Finding(Cause.EXTRA_OUTPUT, f"The model's outputs are {', '.join(expected)}.", output=name)


def _change_of_output(expected: Array, actual: Array) -> Change | None:
    """Returns the relation of an output of another name to an expected output; None without one of all values."""
    if expected.shape != actual.shape or expected.dtype.kind != "f" or actual.dtype.kind != "f":
        return None
    change = find_change(expected, actual, _slack(expected), OF_OUTPUTS)
    return None if change is None or change.cause in {*_NOT_OF_OUTPUTS, Cause.MISSING_VALUES} else change


def other_dtype(probe: Probe) -> Iterator[Finding]:
    """Detects an output with another type."""
    compared = (comparison for case in reversed(probe.run.result.cases) for comparison in case.comparisons)
    first = {each.output: each for each in compared if each.problem is Problem.DTYPE}
    for comparison in first.values():
        text = f"Its dtype is {comparison.actual_dtype} instead of {comparison.dtype}."
        yield Finding(Cause.OTHER_DTYPE, text, output=comparison.output)
