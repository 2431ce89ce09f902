"""The pages quote what was measured: their tables are what the stored results render to."""

import pytest

from benchmarks import measurement_files, rendering
from benchmarks.__main__ import PARTS
from benchmarks.exporter import exporter_tables
from benchmarks.measuring import ROOT


@pytest.mark.parametrize("name", rendering.PAGES)
def test_a_page_is_what_the_stored_results_render_to(name: str) -> None:
    text = (ROOT / name).read_text()
    assert rendering.render(text, *measurement_files.load()) == text, "run python -m benchmarks --render"


def test_every_block_is_in_one_page_once() -> None:
    found = [match[2] for name in rendering.PAGES for match in rendering.MARKED.finditer((ROOT / name).read_text())]
    assert sorted(found) == sorted(rendering.BLOCKS)


def test_another_figure_is_another_text() -> None:
    values, beside = measurement_files.load()
    changed = values | {"ONNX Runtime/1/range/1x128/keras_pe": [1.0]}
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert rendering.render(page, changed, beside) != page


def test_a_marker_of_no_block_is_refused() -> None:
    with pytest.raises(KeyError, match="speeed"):
        rendering.render("<!-- figures: speeed -->\n<!-- end of figures -->", *measurement_files.load())


def test_every_part_that_was_measured_says_what_it_was_measured_on() -> None:
    _, beside = measurement_files.load()
    assert {"accuracy", "onnxruntime"} <= set(beside) <= set(PARTS)
    for part in beside.values():
        assert part["machine"]["processor"]
        assert isinstance(part["machine"]["shared"], bool)
        assert part["machine"]["versions"]["tensorflow"]


def test_the_page_names_parts_that_were_measured_beside_other_work() -> None:
    values, beside = measurement_files.load()
    shared = {"torch": {"machine": {"shared": True}, "left out": ["a case: a reason"]}}
    lines = rendering.left_out(values, beside | shared).splitlines()
    assert "- torch: other work on the machine, so one thread only." in lines
    assert "- a case: a reason" in lines


def test_a_file_stands_beside_the_fastest_of_all_others_turn_by_turn() -> None:
    load = [1.0, 4.0, 2.0]  # other load of the machine, in each turn
    routes = {"keras_pe": 1.0, "keras": 2.0, "torch optimized": 0.8}
    values = {f"exported/m, 1 x 1, 1 thread/{route}": [one * each for each in load] for route, one in routes.items()}
    assert exporter_tables.over_fastest(values, "exported/m, 1 x 1, 1 thread") == pytest.approx((1.25, 1.25, 1.25))
    assert exporter_tables.over_fastest({"exported/m/keras_pe": [1.0]}, "exported/m") is None
    counts = {"exporter": {"operators": {"m": {"keras_pe": [5, 1], "keras": [9, 4], "torch optimized": [7, 2]}}}}
    told = exporter_tables.exported_models(values, counts)
    assert "| m | 1 x 1 | 1.25 | 5 | 7 | 1 |" in told
    assert "The interval of 95 % lies above 1 in 1 of them: m, 1 x 1, 1 thread (1.25)." in told
