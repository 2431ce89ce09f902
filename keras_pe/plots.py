"""Plots of an encoding, on new matplotlib axes or on the caller's.

Every function returns the axes that it drew on; `axes.figure.savefig("picture.svg")` writes them. The colors are safe
for color-blind readers: purple and orange around white, cividis, and the palette of Okabe and Ito.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.palette import LINES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["error_by_position", "heatmap", "similarity", "wavelengths"]

# One dash pattern and marker a color, so that lines differ in gray, too.
_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def heatmap(signal: npt.ArrayLike, *, start_index: int = 0, ax: "Axes | None" = None) -> "Axes":
    """Draws a signal: one row a position, one column a channel.

    Args:
        signal: `(length, channels)`. The colors span the largest absolute value both ways, so that zero is white.
        start_index: Position of the first row.
        ax: Axes to draw on; None makes a figure.
    """
    values = _matrix(signal)
    axes = _axes(ax)
    most = float(np.abs(values).max()) or 1.0
    length, channels = values.shape
    extent = (-0.5, channels - 0.5, start_index + length - 0.5, start_index - 0.5)
    image = axes.imshow(
        values, cmap="PuOr", vmin=-most, vmax=most, aspect="auto", interpolation="nearest", extent=extent
    )
    axes.set(title=f"Position encoding, {length} positions, {channels} channels", xlabel="channel", ylabel="position")
    axes.figure.colorbar(image, ax=axes, label="value")
    _whole_ticks(axes)
    return axes


def similarity(signal: npt.ArrayLike, *, start_index: int = 0, ax: "Axes | None" = None) -> "Axes":
    """Draws the dot product of each two positions, relative to the largest: 1 on the diagonal, fading with distance.

    Args:
        signal: `(length, channels)`.
        start_index: Position of the first row.
        ax: Axes to draw on; None makes a figure.
    """
    values = _matrix(signal)
    axes = _axes(ax, width=6.2)
    products = values @ values.T
    products /= float(np.abs(products).max()) or 1.0
    first, last = start_index - 0.5, start_index + len(values) - 0.5
    image = axes.imshow(
        products, cmap="cividis", aspect="equal", interpolation="nearest", extent=(first, last, last, first)
    )
    axes.set(title="Similarity of positions", xlabel="position", ylabel="position")
    axes.figure.colorbar(image, ax=axes, label="dot product (largest = 1)")
    _whole_ticks(axes)
    return axes


def wavelengths(timescales: npt.ArrayLike, *, label: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draws the wavelength of each sine and cosine: 2 pi timescales. Call it again on the same axes to compare.

    Args:
        timescales: `(count,)`, in positions.
        label: Name of the line in the legend.
        ax: Axes to draw on; None makes a figure.
    """
    scales = np.asarray(timescales, dtype=np.float64)
    if scales.ndim != 1 or not (scales > 0).all():
        raise ArgValueError("timescales", f"must be a vector of positive numbers. Received: shape {scales.shape}.")
    axes = _axes(ax)
    axes.plot(np.arange(len(scales)), 2 * np.pi * scales, **_style(axes, len(scales)), label=label)
    axes.set_yscale("log")
    axes.set(
        title="Wavelength of each pair of channels", xlabel="sine and cosine pair", ylabel="wavelength [positions]"
    )
    _finish(axes, label)
    return axes


def error_by_position(
    actual: npt.ArrayLike,
    expected: npt.ArrayLike,
    *,
    start_index: int = 0,
    label: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draws the largest absolute difference of each position. Call it again on the same axes to compare.

    Args:
        actual: `(length, channels)`.
        expected: The exact signal of the same shape, from `keras_pe.timing_signal`.
        start_index: Position of the first row.
        label: Name of the line in the legend.
        ax: Axes to draw on; None makes a figure.
    """
    ours, theirs = _matrix(actual), _matrix(expected)
    if ours.shape != theirs.shape:
        raise ArgValueError(
            "actual", f"and `expected` must be of one shape. Received: {ours.shape} and {theirs.shape}."
        )
    axes = _axes(ax)
    worst = np.abs(ours - theirs).max(axis=1)
    # A logarithmic axis has no zero: exact positions leave a gap in the line, and all exact means a linear axis.
    if worst.any():
        axes.set_yscale("log")
        worst[worst == 0] = np.nan
    axes.plot(start_index + np.arange(len(worst)), worst, **_style(axes, len(worst)), linewidth=1.0, label=label)
    axes.set(title="Error by position", xlabel="position", ylabel="largest |actual - expected| of the channels")
    _finish(axes, label)
    return axes


def _axes(ax: "Axes | None", width: float = 8.0) -> "Axes":
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "keras_pe.plots needs the package 'matplotlib'. Install it with: pip install 'keras-pe[plot]'"
        ) from error
    return Figure(figsize=(width, 5), layout="constrained").add_subplot()


def _matrix(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"The signal must be (length, channels), neither of them 0. Received: shape {matrix.shape}.")
    return matrix


def _style(axes: "Axes", points: int) -> dict[str, Any]:
    drawn = len(axes.lines)
    return {
        "color": LINES[drawn % len(LINES)],
        "linestyle": _DASHES[drawn % len(_DASHES)],
        # On a long line, one that may jump from point to point, single markers would look like data of their own.
        "marker": _MARKERS[drawn % len(_MARKERS)] if points <= 256 else "",
        "markersize": 4,
        # Markers a little apart for each line: curves that coincide still show both.
        "markevery": (drawn, max(1, points // 12)) if points > drawn else 1,
    }


def _finish(axes: "Axes", label: str | None) -> None:
    axes.grid(alpha=0.3)
    if label is not None:
        axes.legend()


def _whole_ticks(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
