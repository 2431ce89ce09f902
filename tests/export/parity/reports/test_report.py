"""A report as a file: the suffix chooses, nothing is lost, and a name that cannot be written is refused at once."""

import subprocess
import sys

import pytest

from keras_pe.export import write_bundle, write_report
from keras_pe.export.parity.reports.report import check_report_path
from tests.export.parity.presentation.samples import ALL, FAILING, PASSING
from tests.full_disk import full_disk

STARTS = {".html": "<!DOCTYPE html>", ".json": "{", ".md": "# Parity of ", ".xml": "<?xml"}


@pytest.mark.parametrize("suffix", STARTS)
@pytest.mark.parametrize("report", ALL)
def test_every_report_can_be_written_in_every_form(tmp_path, report, suffix):
    path = tmp_path / f"report{suffix}"
    write_report(ALL[report], path)
    assert path.read_text("utf-8").startswith(STARTS[suffix])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_the_same_report_gives_the_same_bytes(tmp_path):
    for name in ("one.html", "two.html"):
        write_report(FAILING, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_an_unknown_form_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"Unknown form 'htm'\. Choose one of: html, json, markdown, junit\. Did you "):
        PASSING.render("htm")
    with pytest.raises(ValueError, match="Unknown form 'document'"):  # a module beside the forms
        PASSING.render("document")


def test_an_unknown_suffix_is_refused_with_those_that_are_known(tmp_path):
    with pytest.raises(ValueError, match=r"must end in one of: \.html, \.json, \.md, \.xml\. .* Did you mean '\.html'"):
        write_report(PASSING, tmp_path / "report.htm")


@pytest.mark.parametrize(("write", "name"), [(write_report, "report.md"), (write_bundle, "failures.npz")])
def test_another_object_is_refused(tmp_path, write, name):
    with pytest.raises(TypeError, match=r"^`report` must be of type \w+\. Received: report='passed'"):
        write("passed", tmp_path / name)


def test_a_folder_is_not_overwritten(tmp_path):
    (tmp_path / "report.md").mkdir()
    with pytest.raises(IsADirectoryError, match="must be a file"):
        check_report_path(tmp_path / "report.md")


def test_the_old_report_stays_when_the_new_one_cannot_be_rendered(tmp_path, monkeypatch):
    path = tmp_path / "report.md"
    write_report(PASSING, path)
    before = path.read_bytes()
    monkeypatch.setattr("keras_pe.export.parity.reports.markdown.render", lambda document: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(FAILING, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".json", ".md", ".xml", ".html"])
def test_on_a_full_disk_it_is_said_and_the_old_report_stays(tmp_path, suffix):
    place = tmp_path / f"report{suffix}"
    write_report(PASSING, place)
    before = place.read_bytes()
    with full_disk(500), pytest.raises(OSError, match=r"The report could not be written to .*What stood there stays\."):
        write_report(FAILING, place)
    assert place.read_bytes() == before
    assert list(tmp_path.iterdir()) == [place]


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"'jinja2'. Install it with: pip install 'keras-pe\[report\]'"):
        write_report(PASSING, tmp_path / "report.html")


@pytest.mark.parametrize("suffix", [".json", ".md"])
def test_json_and_markdown_need_no_other_package(tmp_path, suffix):
    code = f"""
import sys
from keras_pe.export import write_report
from keras_pe.export.records import ParityReport
write_report(ParityReport("m", "b", (), ()), "report{suffix}")
heavy = ("jinja2", "matplotlib", "junitparser", "rich", "keras", "tensorflow", "onnxruntime")
print(*(name for name in heavy if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_a_report_says_when_it_was_made_and_of_which_files(form):
    text = PASSING.render(form)
    for words in ("2026-01-31T12:00:00+00:00", "/models/encoder.onnx", "e3b0c442"):
        assert words in text


def test_a_prompt_shows_one_line_and_a_notebook_the_verdict_the_causes_and_the_runtimes():
    assert repr(PASSING) == "<ParityReport: Parity of encoder: passed>"
    piece = FAILING._repr_html_()
    assert "<script" not in piece
    for words in ("FAILED", "wrong layout", "onnxruntime[basic]"):
        assert words in piece
    assert FAILING._repr_markdown_() == FAILING.render("markdown")
