"""Results of shards: merged in any order they are the same bytes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from keras_pe.export.comparison.output_decisions import Decision
from keras_pe.export.parity.statistics.runtime_statistics import (
    WORST,
    OutputStatistics,
    RuntimeStatistics,
    Severity,
    WorstRow,
)
from keras_pe.export.parity.work.batch_measurement import measure_output


def row(number: int, severity: Severity = Severity.FAILED, error: float = 1.0) -> WorstRow:
    inputs = {
        "x": np.full((2,), number, np.float32),
        "text": np.array("\u00fc" * (number % 3), object),
        "half": np.array([number], ml_dtypes.bfloat16),
    }
    return WorstRow(number, f"row {number}", 0, 0, severity, error, inputs, {"y": np.float64(number)[None]}, {})


def part(seed: int) -> RuntimeStatistics:
    rng = np.random.default_rng(seed)
    expected = rng.standard_normal((20, 3))
    statistics, _ = measure_output(expected, expected + rng.random((20, 3)), allowed=0.5, decision=None, noise=0)
    rows = tuple(row(100 * seed + i, Severity(int(rng.integers(0, 4))), float(rng.integers(0, 3))) for i in range(6))
    problems = {f"problem {rng.integers(0, 12)}": int(rng.integers(0, 100)) for _ in range(4)}
    return RuntimeStatistics(20, 6, 1, {"y": statistics}, problems).merge(RuntimeStatistics(worst=rows))


@pytest.mark.slow
def test_any_order_and_any_grouping_gives_the_same_bytes() -> None:
    parts = [part(seed) for seed in range(5)]
    seen = set()
    for order in itertools.permutations(parts):
        left = RuntimeStatistics()
        for each in order:
            left = left.merge(each)
        pair = order[0].merge(order[1]), order[2].merge(order[3].merge(order[4]))
        seen |= {left.to_bytes(), pair[0].merge(pair[1]).to_bytes()}
    assert len(seen) == 1


def test_bytes_give_back_what_they_were_made_of() -> None:
    whole = part(1)
    again = RuntimeStatistics.from_bytes(whole.to_bytes())
    assert again.to_bytes() == whole.to_bytes()
    assert [each.order for each in again.worst] == [each.order for each in whole.worst]
    for before, after in zip(whole.worst, again.worst, strict=True):
        for name, array in before.inputs.items():
            assert after.inputs[name].dtype == array.dtype
            assert after.inputs[name].tolist() == array.tolist()


def test_half_of_the_bytes_are_refused() -> None:
    content = part(1).to_bytes()
    with pytest.raises(ValueError, match="whole statistics"):
        RuntimeStatistics.from_bytes(content[: len(content) // 2])


def test_the_worst_rows_are_kept_the_worst_first() -> None:
    rows = [
        row(1, Severity.AGREES, 99.0),
        row(2, Severity.FAILED, 1.0),
        row(3, Severity.NO_ANSWER, 0.0),
        row(4, Severity.FAILED, 2.0),
        row(5, Severity.CLASH, 0.0),
        row(0, Severity.FAILED, 2.0),
    ]
    merged = RuntimeStatistics(worst=tuple(rows[:3])).merge(RuntimeStatistics(worst=tuple(rows[3:])))
    assert [each.row for each in merged.worst] == [3, 5, 0, 4, 2, 1]
    crowd = RuntimeStatistics(worst=tuple(row(i) for i in range(3 * WORST))).merge(merged)
    assert len(crowd.worst) == WORST


def test_parts_of_an_output_merge_into_the_whole_and_survive_json() -> None:
    rng = np.random.default_rng(0)
    expected = rng.standard_normal((300, 4))
    actual = expected + rng.standard_normal((300, 4)) * 0.3
    options = {"decision": Decision("argmax"), "noise": 0.1, "allowed": 0.5}
    whole, _ = measure_output(expected, actual, **options)
    merged = OutputStatistics()
    for part in (slice(200, 300), slice(0, 50), slice(50, 200)):
        merged = merged.merge(measure_output(expected[part], actual[part], **options)[0])
    assert merged == whole
    assert OutputStatistics.from_dict(whole.to_dict()) == whole
    assert min(whole.changed, whole.ties, whole.out_of_tolerance) > 0
