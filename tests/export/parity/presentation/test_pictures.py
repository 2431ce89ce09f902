"""Pictures: axes that say what they show, whatever the numbers are."""

import dataclasses
import re

import pytest

from keras_pe.export.parity.presentation.figures import by_layer, by_position, by_size, layers
from keras_pe.export.parity.reports.document import Picture, PictureAxis, Points
from keras_pe.export.parity.reports.drawing import draw
from keras_pe.export.results import LayerResult
from tests.export.parity.presentation.samples import FAILING, HOSTILE, PASSING


def texts(svg: str) -> str:
    return "\n".join(re.findall(">([^<>]+)</text>", svg))


@pytest.mark.slow
def test_the_axes_have_labels_with_units_and_the_lines_have_names():
    result = FAILING.results[0]
    shown = texts(draw(by_position(result.profile, result.worst[1])))
    for words in ("position (index along axis 1)", "in the output's own unit", "Keras itself", "allowed"):
        assert words in shown
    shown = texts(draw(by_size(result.profile, result.worst[1])))
    assert "number of values" in shown
    assert "|difference| (in the output's own unit)" in shown


def test_layers_stand_in_the_models_order_by_name():
    shown = texts(draw(by_layer(FAILING.results[0])))
    assert shown.index("tokens") < shown.index("dense") < shown.index("lost")
    assert "originates here" in shown


@pytest.mark.parametrize("shares", [(31.0, 29.0), (0.0, 0.0)])
def test_shares_begin_at_zero(shares):
    layers = PictureAxis("layer", "names", ("first", "second"))
    drawn = Points("layer", shares, (0.0, 1.0), "bar")
    shown = texts(draw(Picture("Shares", "", PictureAxis("percent", "share"), layers, (drawn,))))
    assert shown.splitlines()[0] == "0"


def test_a_screen_reader_is_told_what_a_picture_shows():
    picture = dataclasses.replace(by_layer(FAILING.results[0]), title=f"Layers of {HOSTILE}")
    svg = draw(picture)
    assert svg.startswith('<svg role="img" ')
    assert re.search(r"<svg [^>]*><title>Layers of &lt;script", svg)


def test_no_difference_at_all_is_said_and_drawn_without_a_histogram():
    result = PASSING.results[1]
    assert "position" in texts(draw(by_position(result.profile, result.worst[1])))
    picture = by_size(dataclasses.replace(result.profile, log10_bin_edges=(), counts=()), result.worst[1])
    assert picture.content == ()


@pytest.mark.parametrize(
    ("equal", "said"),
    [(0, "All 600 values differ."), (5, "5 of 600 values are equal."), (600, "All values are equal.")],
)
def test_how_many_values_differ_is_said_as_one_would_say_it(equal, said):
    result = PASSING.results[1]
    assert by_size(dataclasses.replace(result.profile, equal=equal), result.worst[1]).description == said


@pytest.mark.slow
@pytest.mark.parametrize("errors", [(0.0,), (float("inf"),), (1e-300,), (1e300, 0.0)])
@pytest.mark.parametrize("allowed", [0.0, 1e-6])
def test_extreme_errors_can_be_drawn(errors, allowed):
    result = PASSING.results[0]
    counts = {"log10_bin_edges": (-300.0, 300.0), "counts": (1,)}
    starts = tuple(range(len(errors)))
    profile = dataclasses.replace(result.profile, size=len(errors), starts=starts, errors=errors, noise=(), **counts)
    comparison = dataclasses.replace(result.worst[1], tolerance=allowed)
    assert draw(by_position(profile, comparison)).startswith("<svg")
    assert draw(by_size(profile, comparison)).startswith("<svg")


def test_a_layer_that_is_not_in_the_file_by_itself_neither_agrees_nor_differs():
    absent = LayerResult("fused", None, float("inf"), 1e-6, differs=False)
    result = dataclasses.replace(FAILING.results[0], layers=(absent,))
    assert "agrees" not in texts(draw(by_layer(result)))
    assert layers(result).rows == (("fused", "-", "1.0e-06", "without a tensor in the file", "-"),)


def test_the_row_at_fault_stands_out_and_a_short_form_shows_it_with_the_one_before():
    table = layers(FAILING.results[0])
    assert table.at_fault == (1,)
    assert [row[0] for row in table.short] == ["tokens", HOSTILE]
    assert table.note == "4 layers in all: 1 agree, 1 at fault, 2 after them"
