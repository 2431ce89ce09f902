"""Runs an artifact at other sizes of one dimension."""

import itertools

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.model.sizes.dimensions import SizeRange, sizes_in_words
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.results import CaseStatus, Comparison
from keras_pe.export.runtimes.runtime import Arrays

_CLOSE = 1e-4


def dimensions(probe: Probe) -> list["Dimension"]:
    return [Dimension(probe, name) for name in probe.sizes(probe.run.expectations[0].case.inputs)]


class Dimension:
    """A dynamic dimension. All other dimensions keep the sizes of the first case."""

    def __init__(self, probe: Probe, name: str) -> None:
        self.name, self._probe = name, probe
        known = probe.reference.dimensions.get(name)
        self.taken = known.sizes if known else SizeRange()

    def size_text(self, size: int) -> str:
        """Returns a size as text."""
        return sizes_in_words({self.name: size})

    def draw(self, size: int, seed: int = 0) -> Arrays:
        """Returns inputs with a size of this dimension."""
        first = self._probe.sizes(self._probe.run.expectations[0].case.inputs)
        return self._probe.draw({**first, self.name: size}, seed)

    def agrees_at(self, size: int, seed: int = 0) -> bool:
        """Whether the artifact agrees at a size."""
        inputs = self.draw(size, seed)
        actual, expected = self._probe.ask(inputs), self._probe.expect(inputs)
        if actual is None or expected is None:
            return False
        return all(map(is_close, compare_outputs(expected, actual)))

    def _parts_at(self, size: int, seed: int) -> bool:
        """Whether the model accepts a size at which the artifact does not agree."""
        is_taken = self._probe.expect(self.draw(size, seed)) is not None
        return is_taken and not self.agrees_at(size, seed)

    def neighbors(self, size: int) -> list[int]:
        """Returns the nearest smaller and larger sizes that the model accepts."""
        below, above = (other for other in range(size - 1, 0, -1) if other in self.taken), self.taken.near(size + 1)
        return [*itertools.islice(below, 1), *([above] if above > size else [])]

    def ends(self) -> tuple[int, int] | None:
        """Returns the last size that agrees and the first that does not; None if no such border exists."""
        good, bad = self._split()
        if not good or not bad or max(good) > min(bad):
            return None
        between = [size for size in range(max(good) + 1, min(bad)) if size in self.taken]
        sizes = [max(good), *between, min(bad)]
        low, high = 0, len(sizes) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.agrees_at(sizes[middle]) else (low, middle)
        # Other values must differ at the same size. Otherwise the size is not the cause, but the values are.
        last, first = sizes[low], sizes[high]
        is_size = all(self.agrees_at(last, seed) and self._parts_at(first, seed) for seed in (1, 2))
        return (last, first) if is_size else None

    def _split(self) -> tuple[set[int], set[int]]:
        """Returns the sizes with an agreeing case, and the sizes without one."""
        good, bad = set[int](), set[int]()
        for result, expectation, _ in self._probe.rows:
            if result.status != CaseStatus.SKIPPED and expectation.outputs is not None:
                size = self._probe.sizes(expectation.case.inputs)[self.name]
                (good if result.status == CaseStatus.PASSED else bad).add(size)
        return good, bad - good


def is_close(compared: Comparison) -> bool:
    """Whether two outputs nearly agree. A fault is far larger than the flat tolerance without a float64 rebuild."""
    return compared.passed or compared.max_abs_diff < _CLOSE
