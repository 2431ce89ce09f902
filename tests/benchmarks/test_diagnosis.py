"""The verdict of a row follows from its findings, and a row that is measured again is as it is stored."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import diagnosis
from benchmarks.measurement_files import load_rows

_SAMPLE = (
    "user's code, onnx / detector.py: score * kind -> score",
    "catalogue / a flipped sign",
    "calls of layers / base",
)


def _finding(cause: str, layer: str | None = "y", file: str | None = None, line: int | None = None) -> dict[str, Any]:
    return {"cause": cause, "layer": layer, "file": file, "line": line}


@pytest.mark.parametrize(
    ("expected", "found", "verdict"),
    [
        (("other axis", "y"), [_finding("other axis")], "hit"),
        (("other axis", None), [_finding("other axis", "z")], "hit"),
        (("other axis", "y"), [_finding("other axis"), _finding("unknown")], "vague"),
        (("other axis", "y"), [_finding("other axis", "z")], "wrong"),
        (("other axis", "y"), [_finding("unknown")], "unknown"),
        (("a.py", [3]), [_finding("other axis", "y", "a.py", 3)], "hit"),
        (("a.py", [3]), [_finding("unknown", "y", "a.py")], "vague"),
        (("a.py", [3]), [_finding("other axis", "y", "a.py", 4)], "wrong"),
        (("a.py", [3]), [_finding("unknown")], "unknown"),
    ],
)
def test_a_verdict_follows_from_the_cause_and_the_place(expected: Any, found: Any, verdict: str) -> None:
    assert diagnosis.judge(expected, found) == verdict


def test_a_stored_verdict_follows_from_the_stored_findings() -> None:
    stored = load_rows("diagnosis").values()
    assert all(each["verdict"] == diagnosis.judge(each["expected"], each["found"]) for each in stored)


@pytest.mark.slow
def test_the_causes_of_a_sample_are_those_of_the_table(tmp_path: Path) -> None:
    stored, every = load_rows("diagnosis"), diagnosis.rows()
    assert stored.keys() == every.keys(), "run python -m benchmarks diagnosis"
    for number, key in enumerate(_SAMPLE):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert every[key](folder)["found"] == stored[key]["found"], key
