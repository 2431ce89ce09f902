"""A relative bias that looks some distances up in other buckets: which ones is read off the artifact's numbers."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.model.watch.keras_internals import replaced_attributes
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import call, given
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause
from keras_pe.signal.distances import relative_buckets

_MOST = 8  # distances in other buckets: more are another rule
_SHOWN = 4


def other_buckets(fault: LayerFault) -> Edits:
    """Yields this package's relative bias with the buckets that the artifact shows for the distances it gets wrong."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.RelativePositionBias):
        return
    if fault.actual is None:
        yield from _neighboring_buckets(layer)
        return
    farthest = layer.max_distance
    meant = _buckets_of(layer)
    (weights,) = layer.get_weights()
    rows = _rows_of_distances(fault, len(meant))
    is_off = np.abs(fault.actual - fault.expected).max(axis=1) > fault.tolerance
    found = meant.copy()
    for row in np.unique(rows[is_off]):
        shown = fault.actual.swapaxes(1, 3).swapaxes(1, 2)[rows == row][0]
        found[row] = np.argmin(np.abs(weights - shown).max(axis=-1))
    moved = np.flatnonzero(found != meant)
    if 0 < len(moved) <= _MOST:
        said = [_said(row - farthest, found[row], meant[row]) for row in moved[:_SHOWN]]
        yield Edit(Cause.OTHER_BUCKET, f"with {', '.join(said)}", partial(_with, {"_buckets": _table(found)}))


def _neighboring_buckets(layer: Any) -> Edits:
    """Yields the bias with one distance in the bucket before or after its own, near distances first."""
    meant = _buckets_of(layer)
    for row in sorted(range(len(meant)), key=lambda row: abs(row - layer.max_distance)):
        for bucket in (meant[row] - 1, meant[row] + 1):
            if 0 <= bucket <= meant.max():
                found = meant.copy()
                found[row] = bucket
                said = f"with {_said(row - layer.max_distance, bucket, meant[row])}"
                yield Edit(Cause.OTHER_BUCKET, said, partial(_with, {"_buckets": _table(found)}))


def _said(distance: int, bucket: int, meant: int) -> str:
    return f"distance {distance} in bucket {bucket} instead of {meant}"


def _buckets_of(layer: Any) -> npt.NDArray[np.int32]:
    return relative_buckets(layer.rule, layer.num_buckets, layer.max_distance, bidirectional=layer.bidirectional)


def _rows_of_distances(fault: LayerFault, count: int) -> npt.NDArray[np.intp]:
    """Returns which row of the table of distances each key has for each query, `(batch or 1, queries, keys)`."""
    layer = fault.call.layer
    numbered = np.repeat(np.arange(count, dtype=np.float32)[:, np.newaxis], layer.num_heads, axis=1)
    one_each = {"_buckets": _table(np.arange(count, dtype=np.int32)), "_table": numbered}
    return np.rint(_with(one_each, fault)[:, 0]).astype(np.intp)


def _table(rows: Array) -> Any:
    from keras_pe.rotations.lookup import Table  # which imports Keras: where a layer is looked at it is there

    return Table(rows)


def _with(attributes: dict[str, Any], fault: LayerFault) -> Array:
    """Returns what the layer gives with other tables of its own."""
    with replaced_attributes(fault.call.layer, attributes):
        return call(fault.call.layer, given(fault), fault)
