"""At which sizes of a dynamic dimension an artifact agrees, whatever the dimension is called."""

import re
from collections.abc import Iterator

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.model.sizes.dimensions import SizeRange
from keras_pe.export.parity.diagnosis.probe import Probe
from keras_pe.export.results import CaseStatus

_MOST_CANDIDATES = 12


def agrees_at(probe: Probe, dimension: str, size: int, seed: int = 0) -> bool:
    """Whether the artifact agrees at a size of a dimension, the others as in the first case."""
    inputs = probe.draw({**first_sizes(probe), dimension: size}, seed)
    actual, expected = probe.ask(inputs), probe.expect(inputs)
    if actual is None or expected is None:
        return False
    # Without a float64 rebuild at hand the tolerance is flat; what is looked for is far larger.
    return all(c.passed or c.max_abs_diff < 1e-4 for c in compare_outputs(expected, actual))


def last_agreeing(probe: Probe, dimension: str) -> tuple[int, int] | None:
    """Returns the last size of a dimension that agrees and the first that does not; None where they do not part so."""
    good, bad = _split(probe, dimension)
    if not good or not bad or max(good) > min(bad):
        return None
    taken = sizes_taken(probe, dimension)
    between = [size for size in range(max(good) + 1, min(bad)) if taken.near(size) == size]
    sizes = [max(good), *between, min(bad)]
    low, high = 0, len(sizes) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if agrees_at(probe, dimension, sizes[middle]) else (low, middle)
    # It is the size, and not a value that happens to come with it, if other values part at the same place.
    ends = sizes[low], sizes[high]
    is_size = all(
        agrees_at(probe, dimension, ends[0], s) and not agrees_at(probe, dimension, ends[1], s) for s in (1, 2)
    )
    return ends if is_size else None


def frozen_candidates(probe: Probe) -> list[int]:
    """Returns sizes that may be fixed in an artifact: those in what it returns in the place of others, and those that
    the runtime's refusals name."""
    found: list[int] = []
    for expectation, answer in zip(probe.expectations, probe.answers, strict=False):
        for name, expected in (expectation.outputs or {}).items():
            actual = (answer or {}).get(name)
            if actual is not None and actual.shape != expected.shape:
                found += actual.shape
    refusals = " ".join(case.error for case in probe.result.cases)
    found += map(int, re.findall(r"\b\d{1,4}\b", refusals))
    return [size for size in dict.fromkeys(found) if size > 1][:_MOST_CANDIDATES]


def neighbors(probe: Probe, dimension: str, size: int) -> Iterator[int]:
    """Yields the sizes before and after one, of those that the model takes."""
    taken = sizes_taken(probe, dimension)
    below = [other for other in range(1, size) if taken.near(other) == other][-1:]
    above = taken.near(size + 1)
    yield from below
    if above > size:
        yield above


def sizes_taken(probe: Probe, dimension: str) -> SizeRange:
    """Returns the sizes of a dimension that the model takes."""
    known = probe.reference.dimensions.get(dimension)
    return known.sizes if known else SizeRange()


def first_sizes(probe: Probe) -> dict[str, int]:
    """Returns the dynamic dimensions of the first case, by name."""
    return probe.sizes(probe.expectations[0].case.inputs)


def _split(probe: Probe, dimension: str) -> tuple[set[int], set[int]]:
    """Returns the sizes of a dimension at which a case agrees, and those at which none does."""
    good, bad = set[int](), set[int]()
    for result, expectation in zip(probe.result.cases, probe.expectations, strict=False):
        if result.status != CaseStatus.SKIPPED:
            (good if result.status == CaseStatus.PASSED else bad).add(probe.sizes(expectation.case.inputs)[dimension])
    return good, bad - good
