"""The carbon dioxide record of Mauna Loa by month, and the windows that the forecaster trains on."""

import csv
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

HORIZON = 12  # months ahead
WINDOW = 60  # months of history

Float32Array = npt.NDArray[np.float32]


class Windows(NamedTuple):
    """Histories and what followed them, in parts per million.

    Attributes:
        changes: `(windows, WINDOW, 1)`: the change from each month to the next.
        growth: `(windows, WINDOW, 1)`: the change from each month to the same month a year later.
        last: `(windows,)`: the last month of each history, counted from the start of the record.
    """

    changes: Float32Array
    growth: Float32Array
    last: npt.NDArray[np.int64]


def load_months() -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.float64]]:
    """Returns the months of the record and their mean concentrations; a month without any is interpolated."""
    with files("keras_pe.demo").joinpath("data/mauna-loa-co2.csv").open() as file:
        weeks = [(row["date"], row["co2"]) for row in csv.DictReader(file) if row["co2"]]
    month = np.array([f"{date[:4]}-{date[4:6]}" for date, _ in weeks], "datetime64[M]")
    value = np.array([float(co2) for _, co2 in weeks])
    months = np.arange(month[0], month[-1] + np.timedelta64(1, "M"))
    place = (month - months[0]).astype(int)
    count = np.bincount(place, minlength=len(months))
    present = count > 0
    means = np.bincount(place, value, minlength=len(months))[present] / count[present]
    return months, np.interp(np.arange(len(months)), np.flatnonzero(present), means)


def make_windows(values: npt.NDArray[np.float64]) -> Windows:
    """Returns every window of the series that has a year after its last month."""
    last = np.arange(WINDOW, len(values) - HORIZON)
    rows = last[:, np.newaxis] - WINDOW + 1 + np.arange(WINDOW)
    changes, growth = values[rows] - values[rows - 1], values[rows + HORIZON] - values[rows]
    return Windows(changes[..., np.newaxis].astype("float32"), growth[..., np.newaxis].astype("float32"), last)


def select(windows: Windows, mask: npt.NDArray[np.bool_]) -> Windows:
    """Returns some of the windows."""
    return Windows(windows.changes[mask], windows.growth[mask], windows.last[mask])
