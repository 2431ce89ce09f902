"""The pictures of one result: its errors by position and by size, and its layers."""

from collections.abc import Iterator, Sequence

from keras_pe.export.parity.presentation.tables import number
from keras_pe.export.parity.reports.document import Limit, Picture, PictureAxis, Points, Steps
from keras_pe.export.results import Comparison, ErrorProfile, LayerResult, RuntimeResult

_UNIT = "in the output's own unit"


def pictures(result: RuntimeResult) -> Iterator[Picture]:
    """Yields the pictures of the comparison that was profiled, and of the layers."""
    profile = result.profile
    if profile is not None:
        compared = {(case.name, each.output): each for case in result.cases for each in case.comparisons}
        comparison = compared[profile.case, profile.output]
        yield by_position(profile, comparison)
        yield by_size(profile, comparison)
    if result.layers:
        yield by_layer(result)


def by_position(profile: ErrorProfile, comparison: Comparison) -> Picture:
    """Returns the largest error at each position, with Keras' own error and what is allowed."""
    edges = tuple(start - 0.5 for start in (*profile.starts, profile.size))  # a single position stands at its tick
    own = (Steps("Keras itself", edges, profile.noise, "noise", filled=False),) if profile.noise else ()
    return Picture(
        f"Error by position, {_place(profile)}",
        f"Largest error {number(comparison.max_abs_diff)}, allowed {number(comparison.tolerance)}.",
        PictureAxis(f"position (index along axis {profile.axis or 0})", "linear"),
        PictureAxis(f"largest |difference|\n({_UNIT})", "log"),
        (Steps("this runtime", edges, profile.errors), *own),
        (Limit("allowed", comparison.tolerance, "y"),),
    )


def by_size(profile: ErrorProfile, comparison: Comparison) -> Picture:
    """Returns how many values differ by how much; nothing is drawn where none has a finite difference other than 0."""
    edges = tuple(10.0**edge for edge in profile.log10_bin_edges)
    drawn = (Steps("values of this runtime", edges, profile.counts),) if profile.counts else ()
    if profile.equal == comparison.count:
        said = "Not one value differs."
    elif profile.equal:
        said = f"{profile.equal:,} of {comparison.count:,} values do not differ at all."
    else:
        said = f"All {comparison.count:,} values differ."
    if profile.nonfinite:
        said += f" {profile.nonfinite:,} are NaN or infinite on one side only."
    return Picture(
        f"Error histogram, {_place(profile)}",
        said,
        PictureAxis(f"|difference| ({_UNIT})", "log"),
        PictureAxis("number of values", "count"),
        drawn,
        (Limit("allowed", comparison.tolerance, "x"),),
    )


def by_layer(result: RuntimeResult) -> Picture:
    """Returns each layer's error beside what it may be, in the model's order.

    A layer that is not in the file by itself has none.
    """
    first = result.first_layer_that_differs
    said = f"The first layer whose output differs is {first!r}." if first else "No layer's output differs."
    agree = [not layer.differs and layer.tensor is not None for layer in result.layers]
    begin = [layer.originates_here is True for layer in result.layers]
    follow = [layer.differs and not layer.originates_here for layer in result.layers]
    limits = tuple(layer.tolerance for layer in result.layers)
    drawn = (
        Points("allowed", limits, tuple(map(float, range(len(limits)))), "bar", "limit"),
        Points("agrees", *_places(result.layers, agree), "dot", "error"),
        Points("follows", *_places(result.layers, follow), "cross", "noise"),
        Points("originates here", *_places(result.layers, begin), "star", "limit"),
    )
    return Picture(
        "Layer by layer",
        said + " At the left end: no difference. At the right end: no finite one.",
        PictureAxis("largest |difference| of the layer's\noutput (in its own unit)", "log"),
        PictureAxis("", "names", tuple(layer.layer for layer in result.layers)),
        tuple(each for each in drawn if each.x),
    )


def _places(layers: Sequence[LayerResult], chosen: Sequence[bool]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the errors of the chosen layers, and their numbers."""
    found = [
        (layer.max_abs_diff, float(i)) for i, (layer, is_one) in enumerate(zip(layers, chosen, strict=True)) if is_one
    ]
    return tuple(error for error, _ in found), tuple(place for _, place in found)


def _place(profile: ErrorProfile) -> str:
    return f"output {profile.output!r} of the case {profile.case!r}"
