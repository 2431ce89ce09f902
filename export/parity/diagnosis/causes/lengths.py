"""Up to which length an artifact agrees."""

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.parity.diagnosis.probe import Probe


def agrees_at(probe: Probe, length: int, seed: int = 0) -> bool:
    """Whether the artifact agrees at a length, the other dimensions as in the first case."""
    inputs = probe.draw({**first_sizes(probe), "length": length}, seed)
    actual, expected = probe.ask(inputs), probe.expect(inputs)
    if actual is None or expected is None:
        return False
    # Without a float64 rebuild at hand the tolerance is flat; what is looked for is far larger.
    return all(c.passed or c.max_abs_diff < 1e-4 for c in compare_outputs(expected, actual))


def agrees_up_to(probe: Probe) -> int | None:
    """Returns the last length that agrees where every longer one fails; None where the lengths do not part so."""
    good, bad = _split(probe)
    if not good or not bad or max(good) > min(bad):
        return None
    low, high = max(good), min(bad)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if agrees_at(probe, middle) else (low, middle)
    # It is the length, and not a value that happens to come with it, if other values part at the same place.
    is_length = all(agrees_at(probe, low, seed) and not agrees_at(probe, high, seed) for seed in (1, 2))
    return low if is_length else None


def first_sizes(probe: Probe) -> dict[str, int]:
    """Returns the dimensions of the first case."""
    return probe.sizes(probe.expectations[0].case.inputs)


def _split(probe: Probe) -> tuple[list[int], list[int]]:
    """Returns the lengths that passed and the lengths that failed, over the cases that differ in shape only."""
    good: list[int] = []
    bad: list[int] = []
    for result, expectation in zip(probe.result.cases, probe.expectations, strict=False):
        length = probe.sizes(expectation.case.inputs).get("length")
        if length is not None and result.name.startswith(("batch", "length")) and result.status != "skipped":
            (good if result.status == "passed" else bad).append(length)
    return good, bad
