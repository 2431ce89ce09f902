"""Edits of the buckets in which a relative bias looks distances up."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_attributes
from keras_pe.export.parity.diagnosis.sites.other_values import other_values
from keras_pe.export.results import Array, Cause
from keras_pe.signal.distances import relative_buckets

_MOST = 8  # largest number of distances in other buckets; more mean another rule
_SHOWN = 4


def other_buckets(fault: LayerFault) -> Edits:
    """Yields this package's relative bias with the artifact's buckets for the distances that it gets wrong."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.RelativePositionBias):
        return
    if fault.actual is None:
        yield from _neighboring_buckets(layer)
        return
    meant = _buckets_of(layer)
    (weights,) = layer.get_weights()
    rows = _rows_of_distances(fault, len(meant))
    is_off = np.abs(fault.actual - fault.expected).max(axis=1) > fault.tolerance
    found = meant.copy()
    for row in np.unique(rows[is_off]):
        shown = fault.actual.swapaxes(1, 3).swapaxes(1, 2)[rows == row][0]
        found[row] = np.argmin(np.abs(weights - shown).max(axis=-1))
    if 0 < np.count_nonzero(found != meant) <= _MOST:
        yield _with_buckets(layer, meant, found)


def _neighboring_buckets(layer: Any) -> Edits:
    """Yields the bias with one distance in an adjacent bucket, near distances first."""
    meant = _buckets_of(layer)
    for row in sorted(range(len(meant)), key=lambda row: abs(row - layer.max_distance)):
        for bucket in (meant[row] - 1, meant[row] + 1):
            if 0 <= bucket <= meant.max():
                found = meant.copy()
                found[row] = bucket
                yield _with_buckets(layer, meant, found)


def _with_buckets(layer: Any, meant: npt.NDArray[np.int32], found: npt.NDArray[np.int32]) -> Edit:
    rows = np.flatnonzero(found != meant)[:_SHOWN]
    model, artifact = (
        {f"bucket of distance {row - layer.max_distance}": int(each[row]) for row in rows} for each in (meant, found)
    )
    edit = other_values(model, artifact, {"_buckets": _table(found)}, Cause.OTHER_BUCKET)
    moves = (f"distance {row - layer.max_distance} in bucket {found[row]} instead of {meant[row]}" for row in rows)
    return replace(edit, description=f"with {', '.join(moves)}")


def _buckets_of(layer: Any) -> npt.NDArray[np.int32]:
    return relative_buckets(layer.rule, layer.num_buckets, layer.max_distance, bidirectional=layer.bidirectional)


def _rows_of_distances(fault: LayerFault, count: int) -> npt.NDArray[np.intp]:
    """Returns the row of the table of distances for each query and key, `(batch or 1, queries, keys)`."""
    layer = fault.call.layer
    numbered = np.repeat(np.arange(count, dtype=np.float32)[:, np.newaxis], layer.num_heads, axis=1)
    one_each = {"_buckets": _table(np.arange(count, dtype=np.int32)), "_table": numbered}
    return np.rint(with_attributes(fault, one_each)[:, 0]).astype(np.intp)


def _table(rows: Array) -> Any:
    from keras_pe.rotations.lookup import Table  # imported here, since it imports Keras

    return Table(rows)
