"""Finds the tensor of an artifact for each input or output of a model, by name, type and shape, in either layout."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import as_dtype


def pair(wanted: Sequence[TensorInfo], found: Sequence[TensorInfo]) -> dict[TensorInfo, TensorInfo]:
    """Returns the artifact's tensor for each of the model's: the one with equal name, or the first that fits."""
    named = {spec.name: spec for spec in found}
    pairs = {spec: named[spec.name] for spec in wanted if spec.name in named}
    left = [spec for spec in found if spec not in pairs.values()]
    for spec in wanted:
        fitting = [other for other in left if _may_be(spec, other)] if spec not in pairs else []
        if fitting:
            pairs[spec] = fitting[0]
            left.remove(fitting[0])
    return {spec: pairs[spec] for spec in wanted if spec in pairs}


def is_alone(theirs: TensorInfo, wanted: Sequence[TensorInfo], found: Sequence[TensorInfo]) -> bool:
    """Whether an artifact's tensor has the name of a model's, or is the only one that fits it."""
    if any(spec.name == theirs.name for spec in wanted):
        return True
    fitting = [spec for spec in wanted if _may_be(spec, theirs)]
    return len(fitting) == 1 and sum(_may_be(fitting[0], other) for other in found) == 1


def _may_be(ours: TensorInfo, theirs: TensorInfo) -> bool:
    is_laid_out = fits(ours.shape, theirs.shape) or other_layout(ours.shape, theirs.shape) is not None
    return is_decided(ours, theirs) or (is_laid_out and (ours.dtype == "string") == (theirs.dtype == "string"))


def is_decided(ours: TensorInfo, theirs: TensorInfo) -> bool:
    """Whether an output of the artifact is the argmax of each row of the model's output."""
    return (
        theirs.dtype in ("int32", "int64")
        and ours.dtype not in ("string", "bool")
        and is_float(as_dtype(ours.dtype))
        and len(ours.shape) == len(theirs.shape) + 1
        and fits(ours.shape[:-1], theirs.shape)
    )


def fits(ours: Iterable[int | str], theirs: Sequence[int | str]) -> bool:
    """Whether two shapes have the same length and equal fixed sizes."""
    sizes = tuple(ours)
    return len(sizes) == len(theirs) and all(
        one == other or isinstance(one, str) or isinstance(other, str) for one, other in zip(sizes, theirs, strict=True)
    )


def other_layout(ours: Sequence[int | str], theirs: Sequence[int | str]) -> str | None:
    """Returns the artifact's layout if it differs from the model's, else None.

    The sizes that both fix determine it; the number of channels must be among them.
    """
    if len(ours) != len(theirs) or len(ours) < 3:
        return None
    moved = {"channels_first": (ours[0], ours[-1], *ours[1:-1]), "channels_last": (ours[0], *ours[2:], ours[1])}
    channels = {"channels_first": (ours[-1], theirs[1]), "channels_last": (ours[1], theirs[-1])}
    for layout, shape in moved.items():
        own, other = channels[layout]
        is_unambiguous = isinstance(own, int) and own == other
        if is_unambiguous and fits(shape, theirs) and _count_fixed(shape, theirs) > _count_fixed(ours, theirs):
            return layout
    return None


def _count_fixed(ours: Sequence[int | str], theirs: Sequence[int | str]) -> int:
    """Returns how many sizes agree, fixed or dynamic on both sides; -1 if two fixed sizes differ."""
    if not fits(ours, theirs):
        return -1
    return sum(
        one == other or (isinstance(one, str) and isinstance(other, str))
        for one, other in zip(ours, theirs, strict=True)
    )


def transpose_inputs(
    arrays: Mapping[str, Array], layouts: Mapping[str, str], inputs: Iterable[TensorInfo]
) -> dict[str, Array]:
    """Returns inputs in the artifact's layout if their shapes are those of the model's layout.

    Args:
        arrays: The inputs by name.
        layouts: The artifact's layout of each input whose layout differs.
        inputs: The inputs of the artifact.
    """
    shapes = {spec.name: spec.shape for spec in inputs}
    found = dict(arrays)
    for name, layout in layouts.items():
        array = arrays.get(name)
        if array is None or name not in shapes or fits(array.shape, shapes[name]):
            continue
        moved = np.moveaxis(array, *((-1, 1) if layout == "channels_first" else (1, -1)))
        found[name] = moved if fits(moved.shape, shapes[name]) else array
    return found
