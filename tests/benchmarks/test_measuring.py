"""Contestants take turns, and what is stored comes back."""

import itertools
from functools import partial
from pathlib import Path

import pytest

from benchmarks import measurement_files
from benchmarks.measuring import Run, quotient, run_in_process, time_in_turns, time_openings


def test_runs_take_turns_and_each_may_follow_any_other() -> None:
    called: list[str] = []
    runs = {name: lambda name=name: called.append(name) for name in "abc"}
    taken = time_in_turns(runs, rounds=20, least_seconds=0.0)
    assert {name: len(values) for name, values in taken.items()} == {"a": 20, "b": 20, "c": 20}
    turns = ["".join(called[start : start + 3]) for start in range(len(called) - 60, len(called), 3)]
    assert set(turns) == {"".join(each) for each in itertools.permutations("abc")}


def test_files_are_opened_anew_for_each_share_of_the_rounds_in_any_order() -> None:
    opened: list[str] = []

    def opener(name: str) -> Run:
        opened.append(name)
        return lambda: None

    openers = {name: partial(opener, name) for name in "ab"}
    taken = time_openings(openers, rounds=24, most_seconds=1.0, openings=6)
    assert {name: len(values) for name, values in taken.items()} == {"a": 24, "b": 24}
    assert {tuple(opened[start : start + 2]) for start in range(0, 12, 2)} == {("a", "b"), ("b", "a")}


def test_stored_results_keep_their_order_and_a_part_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement_files, "FOLDER", tmp_path)
    measurement_files.save("speed", {"run": [9.0]}, {}, {"left out": []})
    measurement_files.save("costs", {}, {"file": 7}, {"machine": "this"})
    measurement_files.save("speed", {"run": [1.0, 5.0, 2.0]}, {}, {"left out": ["jax"]})
    values, beside = measurement_files.load()
    assert values == {"run": [1.0, 5.0, 2.0], "file": [7.0]}
    assert beside == {"speed": {"left out": ["jax"]}, "costs": {"machine": "this"}}


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_module"):
        run_in_process("no_such_module:measure")


def test_a_function_has_its_arguments_and_a_backend_in_a_process_of_its_own() -> None:
    assert run_in_process("measuring:quotient", [4.0], second=[2.0]) == [2.0, 2.0, 2.0]
    backend = run_in_process("measuring:os.environ.get", "KERAS_BACKEND", threads=1, backend="jax")
    assert backend == "jax"


def test_a_quotient_is_of_what_was_measured_in_the_same_turn() -> None:
    slow = [1.0, 2.0, 3.0] * 20  # as other work comes and goes
    assert quotient([2 * each for each in slow], slow) == (2.0, 2.0, 2.0)
    middle, least, most = quotient([1.0] * 50 + [3.0] * 50, [1.0] * 100)
    assert (least, middle, most) == (1.0, 2.0, 3.0)
    assert quotient([4.0], [2.0]) == (2.0, 2.0, 2.0)


def test_a_table_is_completed_within_its_time_and_a_stored_row_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement_files, "FOLDER", tmp_path)
    rows = {name: lambda folder, name=name: {"row": name} for name in ("a", "b", "other")}
    assert not measurement_files.complete_rows("table", rows, seconds=0.0, chosen="")
    assert measurement_files.complete_rows("table", {"b": lambda folder: {"row": 7}}, seconds=9.0, chosen="b")
    assert measurement_files.complete_rows("table", rows, seconds=9.0, chosen="other")
    assert measurement_files.complete_rows("table", rows, seconds=9.0, chosen="")
    assert list(measurement_files.load_rows("table").items()) == [
        ("a", {"row": "a"}),
        ("b", {"row": 7}),
        ("other", {"row": "other"}),
    ]
