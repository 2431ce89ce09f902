"""The pictures show what they say, on the caller's axes or on their own."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_pe import plots, timing_signal
from keras_pe.signal.formula import geometric_timescales

SIGNAL = timing_signal(np.arange(2, 22), 16)
DRAWN = {
    "heatmap": lambda ax: plots.heatmap(SIGNAL, ax=ax),
    "similarity": lambda ax: plots.similarity(SIGNAL, ax=ax),
    "wavelengths": lambda ax: plots.wavelengths(geometric_timescales(8), ax=ax),
    "error_by_position": lambda ax: plots.error_by_position(SIGNAL + 1e-6, SIGNAL, ax=ax),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_the_callers_axes_are_drawn_on_and_labeled(kind: str) -> None:
    axes = Figure().add_subplot()
    assert DRAWN[kind](axes) is axes
    assert axes.get_title()
    assert axes.get_xlabel()
    assert axes.get_ylabel()


@pytest.mark.parametrize("kind", DRAWN)
def test_without_axes_a_figure_is_made_that_pyplot_does_not_keep(kind: str) -> None:
    from matplotlib import pyplot

    axes = DRAWN[kind](None)
    axes.figure.canvas.draw()
    assert pyplot.get_fignums() == []


def test_the_heatmap_shows_the_values_at_their_positions() -> None:
    axes = plots.heatmap(SIGNAL, start_index=2)
    [image] = axes.get_images()
    np.testing.assert_array_equal(image.get_array(), SIGNAL)
    assert image.get_extent() == [-0.5, 15.5, 21.5, 1.5]
    # Zero is the middle of the colors, or else their sign would mislead.
    low, high = image.get_clim()
    assert low == -high


def test_the_similarity_is_one_on_the_diagonal_and_depends_on_the_distance_alone() -> None:
    [image] = plots.similarity(SIGNAL).get_images()
    products = np.asarray(image.get_array())
    np.testing.assert_allclose(np.diag(products), 1.0, rtol=1e-12)
    np.testing.assert_allclose(products[1:, 1:], products[:-1, :-1], rtol=0, atol=1e-12)


def test_wavelengths_are_in_positions_on_a_logarithmic_axis() -> None:
    axes = plots.wavelengths([1.0, 100.0], label="two")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [2 * np.pi, 200 * np.pi])
    assert axes.get_yscale() == "log"
    assert axes.get_legend().get_texts()[0].get_text() == "two"


def test_lines_on_the_same_axes_differ_in_color_and_in_dashes() -> None:
    axes = None
    for name in ("one", "two", "three"):
        axes = plots.wavelengths([1.0, 10.0], label=name, ax=axes)
    assert axes is not None
    assert len({line.get_color() for line in axes.lines}) == 3
    assert len({line.get_linestyle() for line in axes.lines}) == 3


def test_the_error_is_the_largest_of_each_position_and_exact_rows_leave_a_gap() -> None:
    actual = SIGNAL.copy()
    actual[3, 5] += 0.25
    actual[7, 1] -= 0.5
    [line] = plots.error_by_position(actual, SIGNAL, start_index=2).lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(2, 22))
    drawn = np.asarray(line.get_ydata())
    np.testing.assert_allclose(drawn[[3, 7]], [0.25, 0.5], rtol=1e-12)
    assert np.isnan(np.delete(drawn, [3, 7])).all()


def test_no_error_at_all_is_a_line_at_zero() -> None:
    axes = plots.error_by_position(SIGNAL, SIGNAL)
    assert axes.get_yscale() == "linear"
    assert not np.any(axes.lines[0].get_ydata())


def test_an_undrawable_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(length, channels\)"):
        plots.heatmap(SIGNAL[np.newaxis])
    with pytest.raises(ValueError, match="of one shape"):
        plots.error_by_position(SIGNAL, SIGNAL[1:])
    with pytest.raises(ValueError, match="positive numbers"):
        plots.wavelengths([[1.0]])


def test_importing_the_plots_does_not_import_matplotlib_or_keras() -> None:
    code = "import sys, keras_pe.plots; print(sorted({'matplotlib', 'keras'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_missing_matplotlib_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-pe\[plot\]'"):
        plots.heatmap(SIGNAL)
