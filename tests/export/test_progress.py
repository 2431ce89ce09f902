"""Progress is reported to a function, to a progress bar, or not at all."""

import inspect

import pytest

from keras_pe.export import assert_parity, check_parity
from keras_pe.export.progress import telling, telling_stages


def test_a_function_is_told_what_is_done() -> None:
    told: list[tuple[int, int | None, str]] = []
    with telling(lambda *what: told.append(what)) as tell:
        tell(1, 3, "onnxruntime[all]")
    assert told == [(1, 3, "onnxruntime[all]")]


@pytest.mark.parametrize("nobody", [None, False])
def test_nobody_is_told_unless_asked_for(nobody: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    with telling(nobody) as tell, telling_stages(nobody) as tell_stage:
        tell(1, 3, "onnxruntime")
        tell_stage("trace")
    assert capsys.readouterr() == ("", "")


def test_a_bar_leaves_nothing_in_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    with telling(True) as tell, telling_stages(True) as tell_stage:
        tell(1, 3, "onnxruntime")
        tell_stage("trace")
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    monkeypatch.setattr("keras_pe.export.progress._LINE_SECONDS", 0.0)
    with telling(True, "rows") as tell, telling_stages(True) as tell_stage:
        tell(1024, 8192, "onnxruntime[all]")
        tell_stage("trace")
    assert capsys.readouterr() == ("", "onnxruntime[all]: 1,024 of 8,192 rows\ntrace\n")


def test_a_bar_says_what_runs_as_it_stands_and_keeps_to_the_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with telling(True, "rows") as tell:
        tell(1024, 8192, "onnxruntime[all]")
    with telling_stages(True) as tell_stage:
        tell_stage("trace")
    printed, shown = capsys.readouterr()
    assert printed == ""
    assert "onnxruntime[all]" in shown
    assert "1,024 of 8,192 rows" in shown
    assert "trace" in shown


def test_the_options_of_assert_parity_are_those_of_check_parity() -> None:
    def options(function: object) -> list[tuple[str, object]]:
        assert callable(function)
        return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]

    assert options(assert_parity) == options(check_parity)
