"""Pictures of one runtime's errors, as SVG that takes its colours from the page: one picture for light and dark."""

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from keras_pe.export.parity.results import Comparison, ErrorProfile, LayerResult

# Matplotlib draws with placeholders; in the SVG each becomes a variable of the page's style sheet. The variables hold
# colours of Okabe and Ito's palette, and what they tell apart also differs in line, marker or words.
INK, GRID, ERROR, NOISE, LIMIT = "#010203", "#010204", "#010205", "#010206", "#010207"
_VARIABLES = {INK: "--ink", GRID: "--grid", ERROR: "--error", NOISE: "--noise", LIMIT: "--limit"}

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "keras-pe",  # the same report gives the same bytes
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}
_METADATA = ("Creator", "Date", "Format", "Type")
_LEAST, _MOST = 1e-30, 1e30  # beyond these a logarithmic axis overflows
_UNIT = "in the output's own unit"


def draw_positions(profile: ErrorProfile, comparison: Comparison) -> str:
    """Returns the largest error at each position, with Keras' own error and what is allowed."""
    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure(7.2, 3.1)
        edges = np.array([*profile.starts, profile.size]) - 0.5  # a bin of one position stands around its tick
        errors, noise = np.array(profile.errors), np.array(profile.noise)
        low, high = _limits([*errors, *noise, comparison.tolerance])
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        bars = np.where(errors > 0, np.minimum(errors, high), low)
        axes.stairs(bars, edges, baseline=low, fill=True, color=ERROR, alpha=0.25)
        axes.stairs(bars, edges, baseline=low, color=ERROR, linewidth=1.4, label="this runtime")
        if noise.size:
            own = np.maximum(noise, low)
            axes.stairs(own, edges, baseline=None, color=NOISE, linewidth=1.8, linestyle=":", label="Keras itself")
        _allow(axes.axhline, comparison)
        nonfinite = np.flatnonzero(np.isinf(errors))
        if nonfinite.size:
            middle = (edges[nonfinite] + edges[nonfinite + 1]) / 2
            top = np.full(len(middle), high)
            axes.plot(middle, top, "^", color=LIMIT, markersize=7, clip_on=False, label="NaN or infinity")
        axes.set_xlim(edges[0], edges[-1])
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_xlabel(f"position (index along axis {profile.axis or 0})")
        axes.set_ylabel(f"largest |difference|\n({_UNIT})")
        _plain_log(axes.yaxis)
        _legend(figure)
        return _svg(figure)


def draw_histogram(profile: ErrorProfile, comparison: Comparison) -> str | None:
    """Returns how many values differ by how much; None where no value has a finite difference other than 0."""
    if not profile.counts:
        return None
    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure(7.2, 3.1)
        edges = np.clip(10.0 ** np.array(profile.log10_bin_edges), _LEAST, _MOST)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(_limits([*edges, comparison.tolerance]))
        axes.stairs(profile.counts, edges, baseline=0.5, fill=True, color=ERROR, alpha=0.25)
        axes.stairs(profile.counts, edges, baseline=0.5, color=ERROR, linewidth=1.4, label="values of this runtime")
        axes.set_ylim(0.5, 2.0 * max(profile.counts))
        _allow(axes.axvline, comparison)
        axes.set_xlabel(f"|difference| ({_UNIT})")
        axes.set_ylabel("number of values")
        _plain_log(axes.xaxis)
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.minorticks_off()
        _legend(figure)
        return _svg(figure)


def draw_layers(layers: Sequence[LayerResult]) -> str:
    """Returns each layer's error beside what it may be, in the model's order.

    An error of 0 stands at the left end of the axis, one without a finite value at the right end. A layer that is not
    in the file by itself has none.
    """
    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure(7.2, 1.2 + 0.26 * len(layers))
        low, high = _limits([value for layer in layers for value in (layer.max_abs_diff, layer.tolerance)])
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        places = np.arange(len(layers))
        errors = np.clip([layer.max_abs_diff for layer in layers], low, high)
        allowed = np.clip([layer.tolerance for layer in layers], low, high)
        differs = np.array([layer.differs for layer in layers])
        origins = np.array([layer.originates_here is True for layer in layers])
        agrees = np.array([not layer.differs and layer.tensor is not None for layer in layers])
        axes.plot(allowed, places, "|", color=LIMIT, markersize=11, markeredgewidth=2, label="allowed")
        kinds = (
            (agrees, "o", ERROR, "agrees"),
            (differs & ~origins, "X", NOISE, "follows"),
            (origins, "*", LIMIT, "originates here"),
        )
        for which, marker, colour, label in kinds:
            if which.any():
                style: dict[str, Any] = {"color": colour, "markersize": 12 if marker == "*" else 7, "clip_on": False}
                axes.plot(errors[which], places[which], marker, label=label, **style)
        axes.set_yticks(places, [_short(layer.layer) for layer in layers])
        axes.set_ylim(len(layers) - 0.4, -0.6)
        axes.set_xlabel("largest |difference| of the layer's output (in its own unit)")
        _plain_log(axes.xaxis)
        _legend(figure)
        return _svg(figure)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of a logarithmic axis that shows the positive finite values with some room."""
    shown = [min(max(value, _LEAST), _MOST) for value in values if 0 < value < math.inf]
    low, high = (min(shown), max(shown)) if shown else (1e-9, 1.0)
    return low / 3, high * 3


def _allow(line: Any, comparison: Comparison) -> None:
    if comparison.tolerance > 0:
        line(comparison.tolerance, color=LIMIT, linewidth=1.4, linestyle="--", label="allowed")


def _plain_log(axis: Any) -> None:
    """Writes powers of ten as the tables do."""
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axis.set_minor_locator(NullLocator())


def _legend(figure: Figure) -> None:
    """Puts the legend above the axes, where it covers nothing, from the left edge of the picture."""
    figure.legend(loc="outside upper left", ncols=4, columnspacing=1.5)


def _short(name: str) -> str:
    name = "".join(each if each.isprintable() else " " for each in name)
    return name if len(name) <= 40 else f"{name[:19]}…{name[-20:]}"


def _svg(figure: Figure) -> str:
    """Returns an element to put in a page: no prolog, no addresses, no identifiers that two pictures would share."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # A letter that Matplotlib's own font lacks: texts stay texts in the picture, and the browser finds a font.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(_METADATA))
    text = buffer.getvalue()
    text = re.sub("<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)  # it would rule the whole page
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in referred else "", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text
