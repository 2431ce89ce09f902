"""Positions told otherwise: a rotary encoding with other pairs or rates, a schedule of sines, buckets of distances."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import (
    LayerFault,
    as_array,
    as_tensor,
    call,
    given,
    with_attributes,
    with_inputs,
)
from keras_pe.export.results import Array, Cause
from keras_pe.export.runtimes.runtime import as_dtype
from keras_pe.signal.distances import relative_buckets
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.rope_scalings import RopeScaling, rope_timescales

_FARTHEST = 8192  # offset that is looked for where the rotated channels can be seen
_NEAR = [k for size in range(1, 5) for k in (size, -size)]  # those that are tried elsewhere

_MOST = 8  # distances in other buckets: more are another rule
_SHOWN = 4

_FEWEST_ROWS = 4  # that tell a schedule
_USUAL = {"min_timescale": 1.0, "max_timescale": 1.0e4, "endpoint": True}


def other_rotations(fault: LayerFault) -> Edits:
    """Yields this package's rotary layer as an exporter or a runtime may have it."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.RotaryPositionEncoding):
        return
    for cause, said, change in _other_arguments(layer):
        yield Edit(cause, said, partial(with_attributes, change=change))
    if not _is_of_one_axis(layer):
        return
    yield Edit(Cause.FLIPPED_SIGN, "turning the other way round", partial(_elsewhere, np.negative))
    is_shown = fault.actual is not None
    for offset in [_offset(fault, 1.0 / _scaling_of(layer).timescales)] if is_shown else _NEAR:
        if offset:
            moved = partial(_elsewhere, partial(np.add, offset))
            yield Edit(Cause.START_INDEX_OFF, f"with positions offset by {offset}", moved)
    for last in [_last_of_table(fault)] if is_shown else _lasts(fault):
        if last:
            said = f"with each position beyond {last} taken for {last}"
            yield Edit(Cause.CLAMPED_TABLE, said, partial(_elsewhere, partial(np.minimum, last)))


def _other_arguments(layer: Any) -> Iterator[tuple[Cause, str, dict[str, Any]]]:
    """Yields a cause, what is said of it, and arguments that a rotary layer may have been exported with instead."""
    for layout in get_args(RotaryLayout):
        if layout != layer.layout:
            yield Cause.WRONG_LAYOUT, f"with layout={layout!r} instead of {layer.layout!r}", {"layout": layout}
    scaling = layer.scaling
    if scaling is not None:
        factor = "" if scaling.get("factor") is None else f", factor {scaling['factor']:g},"
        said = f"without its scaling {scaling['rope_type']!r}{factor}"
        yield Cause.MISSING_SCALING, said, {"scaling": None}
    if not _is_of_one_axis(layer):
        return
    meant = _scaling_of(layer)
    if not np.isfinite(meant.timescales).all() or meant.growth is not None:
        return
    if meant.attention_factor != 1.0:
        said = f"without the factor {meant.attention_factor:.6g} of its scaling"
        yield Cause.MISSING_SCALING, said, {"scaling": RopeScaling(meant.timescales).parameters()}
    for dtype in ("bfloat16", "float16"):
        rates = (1.0 / meant.timescales).astype(np.float32).astype(as_dtype(dtype)).astype(np.float64)
        rounded = RopeScaling(1.0 / rates, meant.attention_factor)
        if np.isfinite(rounded.timescales).all():
            said = f"with rates rounded to {dtype}"
            yield Cause.ROUNDED_RATES, said, {"scaling": rounded.parameters()}


def _is_of_one_axis(layer: Any) -> bool:
    """Whether one sequence of positions turns all pairs, at rates that are the same in every call."""
    may_change = layer.scaling is not None and layer.scaling["rope_type"] == "longrope"
    return len(layer.sequence_axis) == 1 and not layer.sections and not may_change


def _scaling_of(layer: Any) -> RopeScaling:
    channels = layer.rotary_dim or layer.input_spec.axes[layer.feature_axis]
    return rope_timescales(
        channels=channels, rope_theta=layer.base, **{"rope_type": "default", **(layer.scaling or {})}
    )


def _offset(fault: LayerFault, rates: npt.NDArray[np.float64]) -> int:
    """Returns how many positions further the artifact turns, as far as all pairs agree on it best."""
    assert fault.actual is not None
    layer, width = fault.call.layer, 2 * len(rates)
    ours, theirs = (
        _points(np.moveaxis(each, layer.feature_axis, -1)[..., :width], layer.layout)
        for each in (fault.expected, fault.actual)
    )
    turned = np.sum(theirs * np.conj(ours), axis=tuple(range(ours.ndim - 1)))
    offsets = np.arange(-_FARTHEST, _FARTHEST + 1)
    agreement = (np.exp(-1j * np.multiply.outer(offsets, rates)) @ turned).real
    return int(offsets[np.argmax(agreement)])


def _points(channels: Array, layout: RotaryLayout) -> npt.NDArray[np.complex128]:
    """Returns each pair of results as a complex number."""
    is_interleaved, half = layout == "interleaved", channels.shape[-1] // 2
    one, other = (channels[..., ::2], channels[..., 1::2]) if is_interleaved else np.split(channels, [half], axis=-1)
    return one.astype(np.float64) + 1j * other.astype(np.float64)


def _last_of_table(fault: LayerFault) -> int | None:
    """Returns the position before the first that is turned wrongly."""
    assert fault.actual is not None
    off = np.moveaxis(np.abs(fault.actual - fault.expected), fault.call.layer.sequence_axis[0], 1)
    is_wrong = off.reshape(*off.shape[:2], -1).max(axis=-1) > fault.tolerance
    positions = np.broadcast_to(_positions(fault), is_wrong.shape)
    return int(positions[is_wrong].min()) - 1 if is_wrong.any() else None


def _lasts(fault: LayerFault) -> list[int]:
    """Returns where a table may end: after few positions, or after a power of two."""
    length = fault.expected.shape[fault.call.layer.sequence_axis[0]]
    return [last for last in (*range(1, 16), *(2**k - 1 for k in range(5, 18))) if last < length - 1]


def _positions(fault: LayerFault) -> npt.NDArray[np.int64]:
    """Returns the positions of a call, `(batch or 1, length)`."""
    arguments, length = given(fault), fault.expected.shape[fault.call.layer.sequence_axis[0]]
    listed, start = (_array(arguments.get(name)) for name in ("positions", "start_index"))
    positions = np.arange(length) if listed is None else listed
    positions = positions if start is None else positions + start.reshape(-1, 1)
    return np.atleast_2d(positions).astype(np.int64)


def _array(value: Any) -> Array | None:
    return None if value is None else np.asarray(value) if isinstance(value, int) else as_array(value)


def _elsewhere(change: Callable[[Array], Array], fault: LayerFault) -> Array:
    """Returns what the layer gives at other positions, which are made of its own."""
    changed = {"positions": as_tensor(change(_positions(fault)).astype(np.int32)), "start_index": None}
    return call(fault.call.layer, {**given(fault), **changed}, fault)


def other_buckets(fault: LayerFault) -> Edits:
    """Yields this package's relative bias with the buckets that the artifact shows for the distances it gets wrong."""
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
    """Yields the bias with one distance in the bucket before or after its own, near distances first."""
    meant = _buckets_of(layer)
    for row in sorted(range(len(meant)), key=lambda row: abs(row - layer.max_distance)):
        for bucket in (meant[row] - 1, meant[row] + 1):
            if 0 <= bucket <= meant.max():
                found = meant.copy()
                found[row] = bucket
                yield _with_buckets(layer, meant, found)


def _with_buckets(layer: Any, meant: npt.NDArray[np.int32], found: npt.NDArray[np.int32]) -> Edit:
    said = [
        f"distance {row - layer.max_distance} in bucket {found[row]} instead of {meant[row]}"
        for row in np.flatnonzero(found != meant)[:_SHOWN]
    ]
    change = {"_buckets": _table(found)}
    return Edit(Cause.OTHER_BUCKET, f"with {', '.join(said)}", partial(with_attributes, change=change))


def _buckets_of(layer: Any) -> npt.NDArray[np.int32]:
    return relative_buckets(layer.rule, layer.num_buckets, layer.max_distance, bidirectional=layer.bidirectional)


def _rows_of_distances(fault: LayerFault, count: int) -> npt.NDArray[np.intp]:
    """Returns which row of the table of distances each key has for each query, `(batch or 1, queries, keys)`."""
    layer = fault.call.layer
    numbered = np.repeat(np.arange(count, dtype=np.float32)[:, np.newaxis], layer.num_heads, axis=1)
    one_each = {"_buckets": _table(np.arange(count, dtype=np.int32)), "_table": numbered}
    return np.rint(with_attributes(fault, one_each)[:, 0]).astype(np.intp)


def _table(rows: Array) -> Any:
    from keras_pe.rotations.lookup import Table  # which imports Keras: where a layer is looked at it is there

    return Table(rows)


def other_schedules(fault: LayerFault) -> Edits:
    """Yields this package's layer as other codebases would compute it, or from where its rows begin."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.SinusoidalPositionEncoding) or fault.actual is None or fault.actual.ndim != 3:
        return
    table = _signal(fault)
    if len(table) < _FEWEST_ROWS or not table.any():
        return
    is_given = len(fault.call.inputs) > 1
    for match in keras_pe.conventions.identify(table):
        names = " or ".join(match.conventions or match.timescales_of) or "timescales of its own"
        if is_given and np.allclose(match.timescales, layer.get_config()["timescales"] or match.timescales):
            said = f"from position {match.start_index}, whatever start it is given,"
            change = {"start_index": match.start_index}
            yield Edit(Cause.START_INDEX_OFF, said, partial(_alone, change))
        said = f"as {names} encodes, from position {match.start_index},"
        yield Edit(Cause.OTHER_CONVENTION, said, partial(_alone, {**_USUAL, **match.layer_arguments()}))


def _signal(fault: LayerFault) -> Array:
    """Returns the rows that the artifact has added to the first input, put beside it, or returned instead."""
    layer, x, actual = fault.call.layer, fault.call.inputs[0], fault.actual
    assert actual is not None
    if layer.combine == "add":
        signal = actual - fault.expected + with_inputs(fault, [(x, np.zeros_like(x))])
    else:
        signal = actual[..., x.shape[-1] :] if layer.combine == "concatenate" else actual
    first: Array = signal[0]
    return first


def _alone(change: Mapping[str, Any], fault: LayerFault) -> Array:
    """Returns what the layer gives for its first argument alone, with other attributes."""
    call = replace(fault.call, arguments=fault.call.arguments[:1], keywords={})
    return with_attributes(replace(fault, call=call), dict(change))
