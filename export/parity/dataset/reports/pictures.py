"""Pictures of one output over many rows, as SVG that takes its colors from the page."""

import io
import math
import re
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from keras_pe.export.parity.dataset.results import OutputSummary
from keras_pe.export.parity.dataset.statistics.histogram import Histogram

# Matplotlib draws with placeholders; in the SVG each becomes a variable of the page's style sheet.
_INK, _GRID, _ERROR, _LIMIT = "#010203", "#010204", "#010205", "#010207"
_VARIABLES = {_INK: "--ink", _GRID: "--grid", _ERROR: "--error", _LIMIT: "--limit"}
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "keras-pe",  # the same report gives the same bytes
    "text.color": _INK,
    "text.parse_math": False,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.5,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "legend.frameon": False,
}
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
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.stairs(counts, edges, baseline=0.5, fill=True, color=_ERROR, alpha=0.25)
        axes.stairs(counts, edges, baseline=0.5, color=_ERROR, linewidth=1.4, label="rows")
        for name, (place, style) in lines.items():
            if place > 0:
                axes.axvline(place, color=_LIMIT, linewidth=1.4, linestyle=style, label=name)
        axes.set_ylim(0.5, 2.0 * counts.max())
        axes.set_xlabel(label)
        axes.set_ylabel("number of rows")
        axes.xaxis.set_major_locator(LogLocator(numticks=7))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.3)
        return _svg(figure)


def _svg(figure: Figure) -> str:
    """Returns an element to put in a page: no prolog, no style of its own, no identifiers that two would share."""
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    text = buffer.getvalue()
    text = re.sub("<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in referred else "", text)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text
