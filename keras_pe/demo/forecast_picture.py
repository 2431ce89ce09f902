"""Draws the forecasts of Keras and of ONNX Runtime, beside the truth and the baseline."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from keras_pe.palette import SKY_BLUE, VERMILION

Values = npt.NDArray[np.floating]

# Widths and dashes tell the lines apart in gray as well.
STYLES = {
    "baseline": {"label": "same month last year", "color": "#999999", "linewidth": 1.2, "linestyle": ":"},
    "keras": {"label": "Keras", "color": SKY_BLUE, "linewidth": 4.0, "linestyle": "-"},
    "onnxruntime": {"label": "ONNX Runtime", "color": VERMILION, "linewidth": 1.4, "linestyle": "--"},
}


def draw_forecast(
    path: Path,
    months: npt.NDArray[np.datetime64],
    values: Values,
    at: npt.NDArray[np.int64],
    forecasts: Mapping[str, Values],
) -> None:
    """Writes the picture as PNG: concentrations above, errors of the forecasts below, both in ppm."""
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    shown = slice(at[0] - 48, None)
    above.plot(months[shown], values[shown], color="black", linewidth=1.0, label="measured")
    for name, style in STYLES.items():
        above.plot(months[at], forecasts[name], zorder=1 if name == "keras" else 2, **style)
        below.plot(months[at], forecasts[name] - values[at], zorder=1 if name == "keras" else 2, **style)
    for axes in (above, below):
        axes.axvline(months[at[0]], color="black", linewidth=0.8, linestyle="-.")
        axes.grid(alpha=0.3)
    above.text(months[at[0]], 0.96, "  held out", va="top", transform=above.get_xaxis_transform())
    above.set_title("Carbon dioxide at Mauna Loa, forecast twelve months ahead")
    above.set_ylabel("monthly mean [ppm]")
    above.legend(loc="lower right")
    below.axhline(0.0, color="black", linewidth=1.0)
    below.set_ylabel("forecast - measured [ppm]")
    below.set_xlabel("month that is forecast")
    figure.savefig(path, dpi=130)
