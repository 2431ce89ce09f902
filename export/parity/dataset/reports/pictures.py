"""Pictures of one output over many rows."""

import math

import numpy as np

from keras_pe.export.parity.dataset.results import OutputSummary
from keras_pe.export.parity.dataset.statistics.histogram import Histogram
from keras_pe.export.parity.reports.drawing import (
    ERROR,
    LIMIT,
    new_figure,
    page_style,
    show_counts,
    show_powers,
    to_svg,
)

_BINS_A_DECADE = 4


def draw_errors(output: OutputSummary) -> str:
    """Returns how many rows have how large an error, with the noise floor and what is allowed; empty without errors."""
    lines = {"noise floor": (output.unit, ":"), "allowed": (output.allowed or 0.0, "--")}
    return _draw(output.statistics.errors, lines, "largest |difference| of a row (in the output's own unit)")


def draw_margins(output: OutputSummary) -> str:
    """Returns how much of the margins of how many rows the error takes; empty where nothing is decided."""
    return _draw(output.statistics.margins, {"a decision can change": (1.0, "--")}, "share of the margin that is taken")


def _draw(found: Histogram, lines: dict[str, tuple[float, str]], label: str) -> str:
    bins = [(low, count) for low, _, count in found.edges() if 1e-300 < low < math.inf]
    if not bins:
        return ""
    places = np.floor(np.log10([low for low, _ in bins]) * _BINS_A_DECADE).astype(int)
    counts = np.bincount(places - places.min(), [count for _, count in bins])
    edges = 10.0 ** (np.arange(places.min(), places.max() + 2) / _BINS_A_DECADE)
    with page_style():
        figure, axes = new_figure(2.9)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.stairs(counts, edges, baseline=0.5, fill=True, color=ERROR, alpha=0.25)
        axes.stairs(counts, edges, baseline=0.5, color=ERROR, linewidth=1.4, label="rows")
        for name, (place, style) in lines.items():
            if place > 0:
                axes.axvline(place, color=LIMIT, linewidth=1.4, linestyle=style, label=name)
        axes.set_ylim(0.5, 2.0 * counts.max())
        axes.set_xlabel(label)
        axes.set_ylabel("number of rows")
        show_powers(axes.xaxis)
        show_counts(axes.yaxis)
        return to_svg(figure)
