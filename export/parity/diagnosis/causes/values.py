"""Causes that the expected and the actual values tell between them. Nothing is run."""

import itertools
from collections.abc import Iterator

import numpy as np

from keras_pe.export.parity.diagnosis.probe import Probe, close
from keras_pe.export.results import Array, Comparison, Finding
from keras_pe.export.runtimes.runtime import as_dtype

_REACH = 8  # rows by which a start may be off


def not_a_number(probe: Probe) -> Iterator[Finding]:
    """NaN or infinity where a number is expected."""
    for name, expected, actual, _ in _pairs(probe):
        if actual.dtype.kind != "f" or actual.shape != expected.shape:
            continue
        broken = ~np.isfinite(actual) & np.isfinite(expected.astype(np.float64))
        if broken.any():
            where = tuple(int(i) for i in np.argwhere(broken)[0])
            share = f"{int(broken.sum()):,} of {broken.size:,} values are NaN or infinite, the first at {list(where)}."
            yield Finding("NaN or infinity", share, probe.layer, name)


def swapped_outputs(probe: Probe) -> Iterator[Finding]:
    """Two outputs that hold each other's values."""
    for _, expectation, answer in probe.failing()[:1]:
        expected = expectation.outputs or {}
        for one, other in itertools.combinations([name for name in expected if name in answer], 2):
            crossed = close(answer[one], expected[other], _slack(expected[other])) and close(
                answer[other], expected[one], _slack(expected[one])
            )
            if crossed and not close(expected[one], expected[other], _slack(expected[one])):
                yield Finding("swapped outputs", f"{one!r} holds what {other!r} should, and the reverse.", output=one)


def passed_through(probe: Probe) -> Iterator[Finding]:
    """An output that is one of the inputs."""
    for _, expectation, answer in probe.failing()[:1]:
        for name, actual in answer.items():
            for given, array in expectation.case.inputs.items():
                expected = (expectation.outputs or {}).get(name)
                if expected is not None and actual.size > 1 and close(actual, array, 0.0):
                    yield Finding("input returned", f"Output {name!r} is equal to input {given!r}.", output=name)


def transposed_axes(probe: Probe) -> Iterator[Finding]:
    """An output with its axes in another order."""
    for name, expected, actual, _ in _pairs(probe):
        if expected.ndim < 2 or actual.ndim != expected.ndim:
            continue
        for axes in list(itertools.permutations(range(expected.ndim)))[1:]:
            turned = expected.transpose(axes)
            if close(actual, turned, _slack(expected)) and not close(expected, turned, _slack(expected)):
                yield Finding(
                    "transposed axes", f"It holds the expected values with the axes as {list(axes)}.", output=name
                )
                break


def layout_of_columns(probe: Probe) -> Iterator[Finding]:
    """An output whose columns alternate where they should stand in halves, or the reverse."""
    for name, expected, actual, comparison in _pairs(probe):
        channels = expected.shape[-1] if expected.ndim else 0
        if channels < 4 or channels % 2 or actual.shape != expected.shape:
            continue
        interleave = np.arange(channels).reshape(2, -1).T.ravel()
        for order, layout in ((interleave, "interleaved"), (np.argsort(interleave), "concatenated")):
            turned = expected[..., order]
            if close(actual, turned, comparison.tolerance) and not close(expected, turned, comparison.tolerance):
                yield Finding("wrong layout", f"Its columns are those expected, in the {layout} order.", output=name)


def shifted_rows(probe: Probe) -> Iterator[Finding]:
    """An output whose row i holds what another row should."""
    for name, expected, actual, comparison in _pairs(probe):
        if expected.ndim < 2 or actual.shape != expected.shape or expected.shape[-2] < 4:
            continue
        length = expected.shape[-2]
        for k in [k for size in range(1, min(_REACH, length - 2)) for k in (size, -size)]:
            here, there = slice(max(0, -k), length - max(0, k)), slice(max(0, k), length + min(0, k))
            if close(actual[..., here, :], expected[..., there, :], comparison.tolerance) and np.ptp(expected) > 0:
                yield Finding(
                    "start index off", f"Row i holds what is expected of row i{k:+d}: off by {k:+d}.", output=name
                )
                break


def half_precision(probe: Probe) -> Iterator[Finding]:
    """Values that a 16-bit float can hold, where float32 is expected."""
    for name, expected, actual, _ in _pairs(probe):
        if expected.dtype == "float32" and not _grid(expected) and (grid := _grid(actual)):
            yield Finding("half precision inside", f"All of its values are {grid} values.", probe.layer, name)


def _grid(array: Array) -> str | None:
    """Returns the 16-bit float that holds every value of an array exactly, if the values do not just happen to."""
    if array.dtype.name in ("float16", "bfloat16"):
        return array.dtype.name
    if array.dtype != np.float32 or array.size < 16:
        return None
    telling = array[np.isfinite(array) & (array != np.rint(array))]  # small integers are on every grid
    for name in ("float16", "bfloat16"):
        with np.errstate(over="ignore"):
            if telling.size >= 16 and (telling.astype(as_dtype(name)).astype(np.float32) == telling).all():
                return name
    return None


def _pairs(probe: Probe) -> Iterator[tuple[str, Array, Array, Comparison]]:
    """Yields each failing output once, from the first case that has it: name, expected, actual, comparison."""
    seen = set[str]()
    for result, expectation, answer in probe.failing():
        for comparison in result.comparisons:
            name, expected = comparison.output, expectation.outputs or {}
            if not comparison.passed and name in answer and name in expected and name not in seen:
                seen.add(name)
                yield name, expected[name], answer[name], comparison


def _slack(array: Array) -> float:
    """Returns a difference that is small for the array: enough to recognize it, not to judge it."""
    if array.dtype.kind != "f":
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(1e-5 * max(1.0, finite.max(initial=0.0)))
