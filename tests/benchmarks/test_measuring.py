"""Contestants take turns, and what is stored comes back."""

from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.measuring import in_own_process, interleaved


def test_runs_take_turns() -> None:
    order: list[str] = []
    runs = {name: lambda name=name: order.append(name) for name in "abc"}
    taken = interleaved(runs, rounds=4, least_seconds=0.0)
    assert {name: len(values) for name, values in taken.items()} == {"a": 4, "b": 4, "c": 4}
    assert order[-12:] == list("abc" * 4)


def test_what_is_stored_comes_back_as_medians_and_a_part_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.save("speed", {"run": [9.0]}, {}, {"left out": []})
    results.save("costs", {}, {"file": 7}, {"machine": "this"})
    results.save("speed", {"run": [1.0, 5.0, 2.0]}, {}, {"left out": ["jax"]})
    medians, beside = results.load()
    assert medians == {"run": 2.0, "file": 7.0}
    assert beside == {"speed": {"left out": ["jax"]}, "costs": {"machine": "this"}}


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_module"):
        in_own_process("benchmarks.no_such_module")
