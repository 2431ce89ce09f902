"""The matrix: one cell for each artifact and runtime, in every width."""

import dataclasses

import pytest

from keras_pe.export.parity.parity_report import subject
from keras_pe.export.parity.presentation.report_content import matrix
from keras_pe.export.parity.presentation.sentences import group_results, remarks
from keras_pe.export.parity.reports.text import render_text
from tests.export.parity.presentation.samples import FAILING, PASSING

PLACES = ("onnxruntime[all]", "onnxruntime_node", "onnxruntime_web[wasm]", "litert", "openvino")


def ship(failing: str):
    """A report of two artifacts in five places, one of which fails."""
    passed, failed = PASSING.results[0], dataclasses.replace(FAILING.results[0], findings=(), layers=(), proof=None)
    results = [
        dataclasses.replace(
            failed if runtime == failing and path.endswith("a.onnx") else passed, artifact=path, runtime=runtime
        )
        for path in ("/models/a.onnx", "/models/b.onnx")
        for runtime in PLACES
        if (path, runtime) != ("/models/b.onnx", "litert")
    ]
    return dataclasses.replace(PASSING, results=tuple(results))


def table_of(report):
    """The matrix of a report."""
    return matrix([subject(report.model, group) for group in group_results(report.results)])


def cells(report):
    """The matrix of a report as texts, and the rows that stand out."""
    table = table_of(report)
    return [table.header, *(tuple(map(str, row)) for row in table.rows)], table.at_fault


def test_artifacts_go_down_and_runtimes_across_with_verdict_and_error_in_each_cell():
    (header, first, second), at_fault = cells(ship("openvino"))
    assert header == ("artifact", *PLACES)
    assert [row[0] for row in (first, second)] == ["a.onnx", "b.onnx"]
    assert first[1] == "passed 1.7e-07", "the error of the sample, rounded to float32"
    assert first[5].startswith("FAILED ")
    assert second[4] == "", "it did not run there"
    assert at_fault == (0,)


def test_artifacts_of_one_name_are_told_by_their_folders():
    places = ("/a/fp32/model.onnx", "/a/int8/model.onnx", "/b/int8/model.onnx", "/b/other.onnx", "/b/saved/")
    results = [dataclasses.replace(PASSING.results[0], artifact=place) for place in places]
    results[1] = dataclasses.replace(FAILING.results[0], artifact=places[1], findings=(), layers=(), proof=None)
    report = dataclasses.replace(PASSING, results=tuple(results))
    (_, *rows), at_fault = cells(report)
    names = ["fp32/model.onnx", "a/int8/model.onnx", "b/int8/model.onnx", "other.onnx", "saved"]
    assert [row[0] for row in rows] == names
    assert at_fault == (1,)
    assert [row[1].split()[0] for row in rows] == ["passed", "FAILED", "passed", "passed", "passed"]
    assert "onnxruntime[all] on a/int8/model.onnx: FAILED" in str(report)


def test_one_artifact_needs_no_matrix():
    assert table_of(PASSING).rows == ()
    assert "Artifacts and runtimes" not in PASSING.render("markdown")


def test_a_wide_table_continues_below_with_the_artifacts_again():
    table = table_of(ship("litert"))
    document = dataclasses.replace(PASSING.document(), overview=table, tables=(), parts=(), remarks=())
    shown = render_text(document, 60).split("\n\n")[1:]
    assert len(shown) > 1
    assert [name for block in shown for name in block.splitlines()[0].split()[1:]] == list(PLACES)
    for block in shown:
        lines = block.splitlines()
        assert [line.split()[0] for line in lines] == ["artifact", "a.onnx", "b.onnx"]
        assert max(map(len, lines)) <= 60
    assert len(render_text(document, 500).split("\n\n")) == 2


@pytest.mark.slow
def test_the_terminal_and_the_page_show_it():
    report = ship("openvino")
    shown, page = str(report), report.render("html")
    assert max(map(len, shown.splitlines())) <= 100
    assert "<h2>Artifacts and runtimes</h2>" in page
    for cell in (cell for row in cells(report)[0] for cell in row if cell):
        assert cell in shown
        assert cell in page


def test_nodes_that_another_provider_than_the_cpu_got_are_counted_in_a_remark():
    placed = {"WebGpuExecutionProvider": 12, "CPUExecutionProvider": 3}
    one = dataclasses.replace(PASSING.results[0], runtime="onnxruntime_web[webgpu]", providers=placed)
    other = dataclasses.replace(one, providers={"CPUExecutionProvider": 15})

    def sentence(result):
        return [each.text for each in remarks(dataclasses.replace(PASSING, results=(result,), cases=()))]

    assert sentence(one) == [
        "onnxruntime_web[webgpu]: 3 nodes on CPUExecutionProvider, 12 nodes on WebGpuExecutionProvider"
    ]
    assert sentence(other) == []
