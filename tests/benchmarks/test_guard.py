"""CI's guard can fail: every bound has a stored figure and a reason, and notices twice the time, or a square."""

from typing import Any

import pytest

from benchmarks.exporter import depth_cost
from benchmarks.guard import BASES, BOUNDS, OURS, is_linear
from benchmarks.measurement_files import load


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize("bound", BOUNDS, ids=[bound["case"] for bound in BOUNDS])
def test_a_bound_can_fail(bound: dict[str, object]) -> None:
    values, _ = load()
    for contestant in (OURS, BASES[str(bound["encoding"])]):
        assert min(values[f"{bound['case']}/{contestant}"]) > 0
    assert 1.3 <= float(str(bound["factor"])) < 2
    assert str(bound["reason"]).endswith(".")


@pytest.mark.parametrize(("power", "passed", "holds"), [(1.0, 1.0, True), (2.0, 1.0, False), (1.0, 0.0, False)])
def test_a_cost_that_grows_with_the_square_of_the_depth_breaks_the_guard(
    power: float, passed: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(function: str, depth: int) -> dict[str, Any]:
        return {"export": depth / 100, "check": (depth / 100) ** power, "passed": passed}

    monkeypatch.setattr(depth_cost, "run_in_process", measure)
    assert is_linear() is holds
