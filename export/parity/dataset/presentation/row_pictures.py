"""The pictures of one output over many rows."""

import math
from collections.abc import Iterator

import numpy as np

from keras_pe.export.parity.dataset.results import OutputSummary
from keras_pe.export.parity.reports.document import Limit, Picture, PictureAxis, Steps
from keras_pe.export.parity.statistics.histogram import Histogram

_BINS_A_DECADE = 4


def pictures(output: OutputSummary) -> Iterator[Picture]:
    """Yields how many rows have how large an error, and how much of their margins it takes, where there are any."""
    floor, allowed = output.noise_floor or 0.0, output.allowed or 0.0
    limits = (Limit("noise floor", floor, "x", dotted=True), Limit("allowed", allowed, "x"))
    said = "Each row by its largest |difference|."
    found = _steps(output.statistics.errors)
    if found is not None:
        label = "largest |difference| of a row\n(in the output's own unit)"
        yield _histogram(f"Errors of output {output.output!r}", said, label, found, limits)
    found = _steps(output.statistics.margins)
    if found is not None:
        said = "Each row by the share of its decision's margin that the error takes: below 1 none changes."
        title = f"Margins of the decisions by output {output.output!r}"
        limit = Limit("a decision can change", 1.0, "x")
        yield _histogram(title, said, "share of the margin that is taken", found, (limit,))


def _histogram(title: str, said: str, label: str, steps: Steps, limits: tuple[Limit, ...]) -> Picture:
    return Picture(title, said, PictureAxis(label, "log"), PictureAxis("number of rows", "count"), (steps,), limits)


def _steps(found: Histogram) -> Steps | None:
    """Returns the counts in wider bins, None where no value is finite and above 0."""
    bins = [each for each in found.bins if 1e-300 < each.low < math.inf]
    if not bins:
        return None
    places = np.floor(np.log10([each.low for each in bins]) * _BINS_A_DECADE).astype(int)
    counts = np.bincount(places - places.min(), [each.count for each in bins])
    edges = 10.0 ** (np.arange(places.min(), places.max() + 2) / _BINS_A_DECADE)
    return Steps("rows", tuple(edges.tolist()), tuple(counts.tolist()))
