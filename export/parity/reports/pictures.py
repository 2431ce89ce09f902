"""Pictures of one runtime's errors."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from keras_pe.export.parity.reports.drawing import (
    ERROR,
    LIMIT,
    NOISE,
    new_figure,
    page_style,
    show_counts,
    show_powers,
    to_svg,
)
from keras_pe.export.results import Comparison, ErrorProfile, LayerResult

_LEAST, _MOST = 1e-30, 1e30  # beyond these a logarithmic axis overflows
_UNIT = "in the output's own unit"


def draw_positions(profile: ErrorProfile, comparison: Comparison) -> str:
    """Returns the largest error at each position, with Keras' own error and what is allowed."""
    with page_style():
        figure, axes = new_figure(3.1)
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
        show_powers(axes.yaxis)
        return to_svg(figure)


def draw_histogram(profile: ErrorProfile, comparison: Comparison) -> str | None:
    """Returns how many values differ by how much; None where no value has a finite difference other than 0."""
    if not profile.counts:
        return None
    with page_style():
        figure, axes = new_figure(3.1)
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
        show_powers(axes.xaxis)
        show_counts(axes.yaxis)
        return to_svg(figure)


def draw_layers(layers: Sequence[LayerResult]) -> str:
    """Returns each layer's error beside what it may be, in the model's order.

    An error of 0 stands at the left end of the axis, one without a finite value at the right end. A layer that is not
    in the file by itself has none.
    """
    with page_style():
        figure, axes = new_figure(1.2 + 0.26 * len(layers))
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
        for which, marker, color, label in kinds:
            if which.any():
                style: dict[str, Any] = {"color": color, "markersize": 12 if marker == "*" else 7, "clip_on": False}
                axes.plot(errors[which], places[which], marker, label=label, **style)
        axes.set_yticks(places, [_short(layer.layer) for layer in layers])
        axes.set_ylim(len(layers) - 0.4, -0.6)
        axes.set_xlabel("largest |difference| of the layer's output (in its own unit)")
        show_powers(axes.xaxis)
        return to_svg(figure)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of a logarithmic axis that shows the positive finite values with some room."""
    shown = [min(max(value, _LEAST), _MOST) for value in values if 0 < value < math.inf]
    low, high = (min(shown), max(shown)) if shown else (1e-9, 1.0)
    return low / 3, high * 3


def _allow(line: Any, comparison: Comparison) -> None:
    if comparison.tolerance > 0:
        line(comparison.tolerance, color=LIMIT, linewidth=1.4, linestyle="--", label="allowed")


def _short(name: str) -> str:
    name = "".join(each if each.isprintable() else " " for each in name)
    return name if len(name) <= 40 else f"{name[:19]}…{name[-20:]}"
