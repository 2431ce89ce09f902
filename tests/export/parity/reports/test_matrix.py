"""The matrix: one cell for each artifact and runtime, in every width."""

import dataclasses

from keras_pe.export.parity.reports import html, text
from keras_pe.export.parity.reports.groups import group_results
from keras_pe.export.parity.reports.matrix import matrix, narrowed
from tests.export.parity.reports.samples import FAILING, PASSING

PLACES = ("onnxruntime[all]", "onnxruntime_node", "onnxruntime_web[wasm]", "litert", "openvino")


def shipped(failing: str):
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


def test_artifacts_go_down_and_runtimes_across_with_verdict_and_error_in_each_cell():
    header, first, second = matrix(group_results(shipped("openvino")))
    assert header == ("artifact", *PLACES)
    assert [row[0] for row in (first, second)] == ["a.onnx", "b.onnx"]
    assert first[1] == "passed 1.7e-07", "the error of the sample, rounded to float32"
    assert first[5].startswith("FAILED ")
    assert second[4] == "", "it did not run there"


def test_one_artifact_needs_no_matrix():
    assert matrix(group_results(PASSING)) == []
    assert narrowed([], 80) == []


def test_what_is_wider_than_the_terminal_is_continued_below_with_the_artifacts_again():
    rows = matrix(group_results(shipped("litert")))
    blocks = narrowed(rows, 60)
    assert len(blocks) > 1
    assert [name for block in blocks for name in block[0][1:]] == list(PLACES)
    for block in blocks:
        assert [row[0] for row in block] == ["artifact", "a.onnx", "b.onnx"]
        assert max(map(len, text.aligned(block))) <= 60
    assert narrowed(rows, 500) == [rows]


def test_the_terminal_and_the_page_show_it():
    report = shipped("openvino")
    shown = text.render_text(report, 100)
    assert max(map(len, shown.splitlines())) <= 100
    page = html.render(report)
    assert "<h2>Artifacts and runtimes</h2>" in page
    for cell in (cell for row in matrix(group_results(report)) for cell in row if cell):
        assert cell in shown
        assert cell in page


def test_nodes_that_another_provider_than_the_cpu_got_are_counted_in_a_remark():
    placed = {"WebGpuExecutionProvider": 12, "CPUExecutionProvider": 3}
    one = dataclasses.replace(PASSING.results[0], runtime="onnxruntime_web[webgpu]", providers=placed)
    report = dataclasses.replace(
        PASSING, results=(one, dataclasses.replace(one, providers={"CPUExecutionProvider": 15}))
    )
    assert text.placements(dataclasses.replace(report, results=report.results[:1])) == [
        "onnxruntime_web[webgpu]: 3 nodes on CPUExecutionProvider, 12 nodes on WebGpuExecutionProvider"
    ]
    assert text.placements(dataclasses.replace(report, results=report.results[1:])) == []
