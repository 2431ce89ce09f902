"""The README quotes what was measured: its tables are what the stored results render to."""

import pytest

from benchmarks import rendering, results
from benchmarks.__main__ import PARTS
from benchmarks.measuring import ROOT


def test_the_readme_is_what_the_stored_results_render_to() -> None:
    readme = (ROOT / "README.md").read_text()
    assert rendering.render(readme, *results.load()) == readme, "run python -m benchmarks --render"


def test_every_block_is_in_the_readme_once() -> None:
    found = [match[2] for match in rendering.MARKED.finditer((ROOT / "README.md").read_text())]
    assert sorted(found) == sorted(rendering.BLOCKS)


def test_the_page_of_all_figures_is_what_the_stored_results_render_to() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert rendering.page(*results.load()) == page, "run python -m benchmarks --render"


def test_another_figure_is_another_text() -> None:
    medians, beside = results.load()
    changed = medians | {"ONNX Runtime/1/range/1x128/keras_pe": 1.0}
    assert rendering.onnxruntime(changed, beside) != rendering.onnxruntime(medians, beside)


def test_a_marker_of_no_block_is_refused() -> None:
    with pytest.raises(KeyError, match="speeed"):
        rendering.render("<!-- figures: speeed -->\n<!-- end of figures -->", *results.load())


def test_every_part_that_was_measured_says_what_it_was_measured_on() -> None:
    _, beside = results.load()
    assert {"accuracy", "onnxruntime"} <= set(beside) <= set(PARTS)
    for part in beside.values():
        assert part["machine"]["processor"]
        assert isinstance(part["machine"]["shared"], bool)
        assert part["machine"]["versions"]["tensorflow"]


def test_the_page_names_the_parts_that_were_not_measured() -> None:
    assert set(rendering.PARTS) == set(PARTS)
    medians, beside = results.load()
    assert "torch: not measured yet." in rendering.page(medians, {k: v for k, v in beside.items() if k != "torch"})


def test_a_file_stands_beside_the_fastest_of_all_others() -> None:
    medians = {"exported/m/keras_pe": 1.0, "exported/m/keras": 2.0, "exported/m/torch optimized": 0.8}
    assert rendering.over_fastest(medians, "exported/m") == pytest.approx(1.25)
    assert rendering.over_fastest({"exported/m/keras_pe": 1.0}, "exported/m") is None
