"""Profiles of the differences: along the axes, and a histogram of their sizes."""

from collections.abc import Sequence

import numpy as np

from keras_pe.export.comparison.differences import absolute_difference
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.results import (
    Array,
    ErrorProfile,
    RuntimeResult,
)
from keras_pe.export.runtimes.runtime import Arrays

MAX_BINS = 128
_BINS_A_DECADE = 2


def profile_longest(
    result: RuntimeResult, expectations: Sequence[Expectation], answers: Sequence[Arrays | None]
) -> ErrorProfile | None:
    """Returns the profile of the comparison with the most positions, among those that failed if any failed.

    The largest difference is often in the shortest case, which shows the least. Returns None without compared arrays.
    """
    compared = [
        (index, case.name, each)
        for index, case in enumerate(result.cases)
        for each in case.comparisons
        if each.worst_index is not None
    ]
    if not compared:
        return None
    index, name, comparison = max(compared, key=lambda row: (not row[2].passed, _positions(row[2].shape)))
    expectation, output = expectations[index], comparison.output
    outputs, truth = expectation.in_float32 or expectation.outputs or {}, expectation.truth or {}
    answer = answers[index]
    assert answer is not None, "a compared case has an answer"
    return profile_errors(name, output, outputs[output], answer[output], truth.get(output))


def profile_errors(case: str, output: str, expected: Array, actual: Array, truth: Array | None = None) -> ErrorProfile:
    """Summarizes the differences of two arrays of equal shape with at least one value.

    Args:
        case: The case's name.
        output: The output's name.
        expected: The reference's array.
        actual: The runtime's array.
        truth: The float64 rebuild's array, if there is one. The differences are then measured against it, and those of
            `expected` are the noise.
    """
    difference = _difference(expected if truth is None else truth, actual)
    axis = min(1, difference.ndim - 1) if difference.ndim else None
    size = _positions(difference.shape)
    starts = np.unique(np.linspace(0, size, MAX_BINS, endpoint=False).astype(int))
    exact = int((difference == 0).sum())
    nonfinite = int(np.isinf(difference).sum())
    edges, counts = _histogram(difference[(difference > 0) & np.isfinite(difference)])
    return ErrorProfile(
        case=case,
        output=output,
        axis=axis,
        size=size,
        starts=tuple(starts.tolist()),
        errors=_largest(difference, axis, starts),
        noise=() if truth is None else _largest(_difference(truth, expected), axis, starts),
        equal=exact,
        nonfinite=nonfinite,
        log10_bin_edges=edges,
        counts=counts,
    )


def _positions(shape: tuple[int, ...]) -> int:
    """Returns the length of the second axis, or of the only axis."""
    return shape[:2][-1] if shape else 1


def _difference(target: Array, values: Array) -> Array:
    """Returns |target - values| in float64; 1 for unequal texts."""
    if target.dtype.kind in "iub" or is_float(target.dtype):
        return absolute_difference(target, values)
    differs: Array = target != values
    return differs.astype(np.float64)


def _largest(difference: Array, axis: int | None, starts: Array) -> tuple[float, ...]:
    """Returns the largest difference in each bin along the axis."""
    if axis is None:
        return (float(difference),)
    line = difference.max(axis=tuple(i for i in range(difference.ndim) if i != axis))
    return tuple(np.maximum.reduceat(line, starts).tolist())


def _histogram(positive: Array) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Returns the edges, as decimal logarithms, and the counts of bins of equal width on a logarithmic scale."""
    if not positive.size:
        return (), ()
    places = np.floor(np.log10(positive) * _BINS_A_DECADE).astype(int)
    first, last = int(places.min()), int(places.max())
    counts = np.bincount(places - first)
    return tuple(i / _BINS_A_DECADE for i in range(first, last + 2)), tuple(counts.tolist())
