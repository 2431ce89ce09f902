"""How an artifact answers at other sizes of one dimension."""

import itertools

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.model.sizes.dimensions import SizeRange, sizes_in_words
from keras_pe.export.parity.diagnosis.probe import Probe
from keras_pe.export.results import CaseStatus, Comparison
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CANDIDATES = 12  # each takes one to three runs of the model and of the artifact
_CLOSE = 1e-4
_MOST_AXES, _MOST_CONSTANTS = 8, 64
_LARGEST = 9999
_SMALL = range(2, 10)
_LEAST_LIMIT = 2  # the size up to which an artifact agrees: every layer works on one element
_LEAST_ROWS = 4  # of a table that ends: a window that is as long as the sequence hides its stride and its axis


def dimensions(probe: Probe) -> list["Dimension"]:
    return [Dimension(probe, name) for name in probe.sizes(probe.run.expectations[0].case.inputs)]


class Dimension:
    """A dynamic dimension: where the artifact agrees along it, all others as in the first case."""

    def __init__(self, probe: Probe, name: str) -> None:
        self._name, self._probe = name, probe
        known = probe.reference.dimensions.get(name)
        self.taken = known.sizes if known else SizeRange()

    def said(self, size: int) -> str:
        """Returns a size in words."""
        return sizes_in_words({self._name: size})

    def draw(self, size: int, seed: int = 0) -> Arrays:
        """Returns inputs of a size."""
        first = self._probe.sizes(self._probe.run.expectations[0].case.inputs)
        return self._probe.draw({**first, self._name: size}, seed)

    def agrees_at(self, size: int, seed: int = 0) -> bool:
        """Whether the artifact agrees at a size."""
        inputs = self.draw(size, seed)
        actual, expected = self._probe.ask(inputs), self._probe.expect(inputs)
        if actual is None or expected is None:
            return False
        return all(map(is_close, compare_outputs(expected, actual)))

    def _parts_at(self, size: int, seed: int) -> bool:
        """Whether the model takes a size and the artifact does not agree there."""
        is_taken = self._probe.expect(self.draw(size, seed)) is not None
        return is_taken and not self.agrees_at(size, seed)

    def neighbors(self, size: int) -> list[int]:
        """Returns the sizes before and after one, of those that the model takes."""
        below, above = (other for other in range(size - 1, 0, -1) if other in self.taken), self.taken.near(size + 1)
        return [*itertools.islice(below, 1), *([above] if above > size else [])]

    def ends(self) -> tuple[int, int] | None:
        """Returns the last size that agrees and the first that does not; None where they do not part so."""
        good, bad = self._split()
        if not good or not bad or max(good) > min(bad):
            return None
        between = [size for size in range(max(good) + 1, min(bad)) if size in self.taken]
        sizes = [max(good), *between, min(bad)]
        low, high = 0, len(sizes) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.agrees_at(sizes[middle]) else (low, middle)
        # It is the size, and not a value that happens to come with it, if other values part at the same place.
        last, first = sizes[low], sizes[high]
        is_size = all(self.agrees_at(last, seed) and self._parts_at(first, seed) for seed in (1, 2))
        return (last, first) if is_size else None

    def _split(self) -> tuple[set[int], set[int]]:
        """Returns the sizes at which a case agrees, and those at which none does."""
        good, bad = set[int](), set[int]()
        for result, expectation in zip(self._probe.run.result.cases, self._probe.run.expectations, strict=False):
            if result.status != CaseStatus.SKIPPED and expectation.outputs is not None:
                size = self._probe.sizes(expectation.case.inputs)[self._name]
                (good if result.status == CaseStatus.PASSED else bad).add(size)
        return good, bad - good


def is_close(compared: Comparison) -> bool:
    """Whether two outputs are alike: without a float64 rebuild the tolerance is flat, and a fault is far larger."""
    return compared.passed or compared.max_abs_diff < _CLOSE
