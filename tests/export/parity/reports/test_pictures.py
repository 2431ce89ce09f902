"""Pictures: axes that say what they show, whatever the numbers are."""

import dataclasses
import re

import pytest

from keras_pe.export.parity.reports import pictures
from keras_pe.export.parity.reports.cells import layer_cells
from keras_pe.export.results import LayerResult
from tests.export.parity.reports.samples import FAILING, PASSING


def texts(svg: str) -> str:
    return "\n".join(re.findall(">([^<>]+)</text>", svg))


def test_the_axes_have_labels_with_units_and_the_lines_have_names():
    result = FAILING.results[0]
    shown = texts(pictures.draw_positions(result.profile, result.worst[1]))
    for words in ("position (index along axis 1)", "in the output's own unit", "Keras itself", "allowed"):
        assert words in shown
    shown = texts(pictures.draw_histogram(result.profile, result.worst[1]))
    assert "number of values" in shown
    assert "|difference| (in the output's own unit)" in shown


def test_layers_stand_in_the_models_order_by_name():
    shown = texts(pictures.draw_layers(FAILING.results[0].layers))
    assert shown.index("tokens") < shown.index("dense") < shown.index("lost")
    assert "originates here" in shown


def test_no_difference_at_all_is_drawn_without_a_histogram():
    result = PASSING.results[1]
    assert "position" in texts(pictures.draw_positions(result.profile, result.worst[1]))
    profile = dataclasses.replace(result.profile, log10_bin_edges=(), counts=())
    assert pictures.draw_histogram(profile, result.worst[1]) is None


@pytest.mark.parametrize("errors", [(0.0,), (float("inf"),), (1e-300,), (1e300, 0.0)])
@pytest.mark.parametrize("allowed", [0.0, 1e-6])
def test_extreme_errors_can_be_drawn(errors, allowed):
    result = PASSING.results[0]
    counts = {"log10_bin_edges": (-300.0, 300.0), "counts": (1,)}
    starts = tuple(range(len(errors)))
    profile = dataclasses.replace(result.profile, size=len(errors), starts=starts, errors=errors, noise=(), **counts)
    comparison = dataclasses.replace(result.worst[1], tolerance=allowed)
    assert pictures.draw_positions(profile, comparison).startswith("<svg")
    assert pictures.draw_histogram(profile, comparison).startswith("<svg")


def test_a_layer_that_is_not_in_the_file_by_itself_neither_agrees_nor_differs():
    absent = LayerResult("fused", None, float("inf"), 1e-6, differs=False)
    assert "agrees" not in texts(pictures.draw_layers([absent]))
    assert layer_cells(absent) == ("fused", "-", "1.0e-06", "not in the file by itself")
