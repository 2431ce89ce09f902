"""What CI's guard compares: every bound has a stored figure and a reason, and notices twice the time."""

import pytest

from benchmarks.guard import BASES, BOUNDS, OURS
from benchmarks.results import load


@pytest.mark.parametrize("bound", BOUNDS, ids=[bound["case"] for bound in BOUNDS])
def test_a_bound_can_fail(bound: dict[str, object]) -> None:
    values, _ = load()
    for contestant in (OURS, BASES[str(bound["encoding"])]):
        assert min(values[f"{bound['case']}/{contestant}"]) > 0
    assert 1.3 <= float(str(bound["factor"])) < 2
    assert str(bound["reason"]).endswith(".")
