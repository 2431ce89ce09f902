"""Draws the pictures of a document as SVG, with colors for light and dark pages."""

import html
import io
import math
import re
import warnings
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from keras_pe.export.parity.reports.document import Picture, PictureAxis, Points, Steps

# Matplotlib draws with placeholders; in the SVG each becomes a variable of the page's style sheet. The variables hold
# colors of Okabe and Ito's palette, and what they tell apart also differs in line, marker or words.
_INK, _GRID = "#010203", "#010204"
_COLORS = {"error": "#010205", "noise": "#010206", "limit": "#010207"}
_VARIABLES = {_INK: "--ink", _GRID: "--grid", **{color: f"--{name}" for name, color in _COLORS.items()}}
_MARKERS = {"dot": ("o", 7), "cross": ("X", 7), "star": ("*", 12), "bar": ("|", 11)}

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "keras-pe",  # the same report gives the same bytes
    "font.family": "sans-serif",
    "font.size": 10,
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
_METADATA = ("Creator", "Date", "Format", "Type")

# In inches. A telephone shows the width at four fifths of its size, where the letters can still be read.
_WIDTH, _HEIGHT, _HEIGHT_OF_NAME = 4.8, 3.1, 0.26
_LEAST, _MOST = 1e-30, 1e30  # beyond these a logarithmic axis overflows
_LONGEST_NAME = 28


def draw(picture: Picture) -> str:
    """Returns an element of SVG to put in a page."""
    with mpl.rc_context(_SETTINGS):
        height = 1.3 + _HEIGHT_OF_NAME * len(picture.y.names) if picture.y.names else _HEIGHT
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        ticks = 4 if picture.y.names else 6  # names take the room of two
        _set_scale(axes.xaxis, picture.x, axes.set_xlim, _values(picture, "x"), ticks)
        _set_scale(axes.yaxis, picture.y, axes.set_ylim, _values(picture, "y"), ticks)
        for each in picture.content:
            _draw_steps(axes, each) if isinstance(each, Steps) else _draw_points(axes, each)
        for limit in picture.limits:
            if limit.value > 0:
                line = axes.axvline if limit.axis == "x" else axes.axhline
                style = ":" if limit.dotted else "--"
                line(limit.value, color=_COLORS["limit"], linewidth=1.4, linestyle=style, label=limit.label)
        return _to_svg(figure, picture.title)


def _values(picture: Picture, axis: str) -> list[float]:
    """Returns what stands along an axis."""
    found = [limit.value for limit in picture.limits if limit.axis == axis]
    for each in picture.content:
        if isinstance(each, Points):
            found += each.x if axis == "x" else each.y
        else:
            found += each.edges if axis == "x" else each.values
    return found


def _set_scale(axis: Any, given: PictureAxis, set_limits: Any, values: list[float], ticks: int) -> None:
    """Gives an axis its label, its ends and its ticks."""
    axis.set_label_text(given.label)
    shown = [min(max(value, _LEAST), _MOST) for value in values if 0 < value < math.inf]
    if given.scale == "names":
        axis.set_ticks(range(len(given.names)), [_short(name) for name in given.names])
        set_limits(len(given.names) - 0.4, -0.6)
    elif given.scale in ("linear", "share"):
        ends = [*values, 0.0, 1.0] if given.scale == "share" else values
        set_limits(min(ends), max(ends))
        axis.set_major_locator(MaxNLocator(ticks, integer=True))
    else:
        counts = given.scale == "count"
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        low, high = (min(shown), max(shown)) if shown else (1e-9, 1.0)
        set_limits(*((0.5, 2 * high) if counts else (low / 3, high * 3)))
        axis.set_major_locator(LogLocator(numticks=ticks))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if counts else f"{value:.0e}"))
        axis.set_minor_locator(NullLocator())


def _draw_steps(axes: Axes, steps: Steps) -> None:
    edges, values = np.array(steps.edges), np.array(steps.values)
    low, high = axes.get_ylim()
    color, shown = _COLORS[steps.color], np.clip(values, low, high)
    if not steps.filled:
        axes.stairs(shown, edges, baseline=None, color=color, linewidth=1.8, linestyle=":", label=steps.label)
        return
    axes.stairs(shown, edges, baseline=low, fill=True, color=color, alpha=0.25)
    axes.stairs(shown, edges, baseline=low, color=color, linewidth=1.4, label=steps.label)
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        middle, top = (edges[infinite] + edges[infinite + 1]) / 2, np.full(len(infinite), high)
        axes.plot(middle, top, "^", color=_COLORS["limit"], markersize=7, clip_on=False, label="NaN or infinity")


def _draw_points(axes: Axes, points: Points) -> None:
    marker, size = _MARKERS[points.marker]
    x, y = np.clip(points.x, *axes.get_xlim()), np.array(points.y)
    style: Any = {"markersize": size, "markeredgewidth": 2.0 if points.marker == "bar" else 1.0}
    axes.plot(x, y, marker, color=_COLORS[points.color], clip_on=False, label=points.label, linestyle="", **style)


def _short(name: str) -> str:
    name = "".join(each if each.isprintable() else " " for each in name)
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"


def _to_svg(figure: Figure, title: str) -> str:
    """Returns an element with its legend: no prolog, no address, no identifier that two share."""
    # Above the axes, where it covers nothing, from the left edge of the picture.
    figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handletextpad=0.5)
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # A letter that Matplotlib's own font lacks: texts stay texts in the picture, and the browser finds a font.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(_METADATA))
    text = buffer.getvalue()
    text = re.sub("<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)  # it would rule the whole page
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in referred else "", text)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    # A screen reader says the title in the place of the picture.
    title = html.escape("".join(each if each.isprintable() else " " for each in title))
    return re.sub("<svg ([^>]*)>", lambda match: f'<svg role="img" {match[1]}><title>{title}</title>', text, count=1)
