"""Indices that a lookup, a hash or a discretization computes, read back from the rows of the table behind it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.results import Array, Cause, OtherValue

_MOST_SHOWN = 4
_AT_ONCE = 2**22  # differences between rows that are looked at together
_PARAMETERS = {
    "Hashing": "salt",
    "StringLookup": "vocabulary",
    "IntegerLookup": "vocabulary",
    "Discretization": "bin_boundaries",
}
"""What decides on the indices of each layer."""


def other_indices(fault: LayerFault) -> Edits:
    """Yields the rows of a table for other indices, with the layer that computes the indices as the one to be named."""
    for maker in fault.made_by.values():
        shown, own = _rows_shown(fault), fault.call.inputs[0]
        if shown is None or shown.shape != own.shape or len(np.unique(shown - own)) == 1:
            continue  # the indices agree, or all are shifted alike, which a change of the input explains
        name = _PARAMETERS.get(type(maker.layer).__name__, "indices")
        parameters = tuple(_changed(maker.inputs[0], own, shown))
        said = ", ".join(f"{each.name} is {each.artifact} instead of {each.model}" for each in parameters)
        text = f"the rows of other indices: the {said}"
        path = maker.path.partition("#")[0]
        yield Edit(Cause.attribute(name), text, _of_rows, is_output=True, layer=path, parameters=parameters)


def _changed(values: Array, own: Array, shown: Array) -> Iterator[OtherValue]:
    """Yields the first values whose index is another one."""
    for place in np.argwhere(own != shown)[:_MOST_SHOWN]:
        at = tuple(place)
        what = f"index of {_plain(values[at])!r}" if values.shape == own.shape else f"index at {place.tolist()}"
        yield OtherValue(what, int(own[at]), int(shown[at]))


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _of_rows(fault: LayerFault) -> Array | None:
    """Returns what the artifact holds, if each of its rows is a row of the table."""
    return None if _rows_shown(fault) is None else fault.actual


def _rows_shown(fault: LayerFault) -> Array | None:
    """Returns which row of its table each vector of an embedding's output is; None if one of them is not a row."""
    table = getattr(fault.call.layer, "embeddings", None)
    if table is None or fault.actual is None or not fault.call.inputs:
        return None
    rows, vectors = as_array(table), fault.actual.reshape(-1, fault.actual.shape[-1])
    if len(vectors) * rows.size > _AT_ONCE:
        return None
    apart = np.abs(vectors[:, np.newaxis] - rows).max(axis=-1)
    if apart.min(axis=1).max(initial=0.0) > fault.tolerance:
        return None
    found: Array = apart.argmin(axis=1).reshape(fault.actual.shape[:-1])
    return found
