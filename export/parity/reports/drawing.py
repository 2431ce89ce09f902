"""What pictures in a page have in common: SVG that takes its colors from the page, one for light and dark."""

import contextlib
import io
import re
import warnings
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

# Matplotlib draws with placeholders; in the SVG each becomes a variable of the page's style sheet. The variables hold
# colors of Okabe and Ito's palette, and what they tell apart also differs in line, marker or words.
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


def page_style() -> contextlib.AbstractContextManager[None]:
    """Returns the context to draw in."""
    return mpl.rc_context(_SETTINGS)


def new_figure(height: float) -> tuple[Figure, Axes]:
    """Returns a figure as wide as a page's, so many inches high, and its axes."""
    figure = Figure(figsize=(7.2, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def show_powers(axis: Any) -> None:
    """Writes powers of ten as the tables do."""
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axis.set_minor_locator(NullLocator())


def show_counts(axis: Any) -> None:
    """Makes a logarithmic axis one of whole numbers."""
    axis.set_major_locator(LogLocator(numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_locator(NullLocator())


def to_svg(figure: Figure) -> str:
    """Returns an element to put in a page, with its legend: no prolog, no address, no identifier that two share."""
    # Above the axes, where it covers nothing, from the left edge of the picture.
    figure.legend(loc="outside upper left", ncols=4, columnspacing=1.5)
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
    return text
