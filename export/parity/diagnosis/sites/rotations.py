"""A rotary encoding with other pairs, positions or rates: an offset, or a table's end, is read off the numbers."""

from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import as_array, as_tensor, call, given, with_attributes
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.rope_scalings import RopeScaling, rope_timescales

_FARTHEST = 8192  # offset that is looked for


def other_rotations(fault: LayerFault) -> Edits:
    """Yields this package's rotary layer as an exporter or a runtime may have it."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.RotaryPositionEncoding) or fault.actual is None:
        return
    for layout in get_args(RotaryLayout):
        said = f"with layout={layout!r} instead of {layer.layout!r}"
        yield _changed(Cause.WRONG_LAYOUT, said, layout=layout)
    scaling = layer.scaling
    if scaling is not None:
        factor = "" if scaling.get("factor") is None else f", factor {scaling['factor']:g},"
        yield _changed(Cause.MISSING_SCALING, f"without its scaling {scaling['rope_type']!r}{factor}", scaling=None)
    may_change = scaling is not None and scaling["rope_type"] == "longrope"  # its rates, from call to call
    if len(layer.sequence_axis) == 1 and not layer.sections and not may_change:
        yield from _of_one_axis(fault)


def _of_one_axis(fault: LayerFault) -> Edits:
    layer = fault.call.layer
    channels = layer.rotary_dim or fault.expected.shape[layer.feature_axis]
    meant = rope_timescales(
        channels=channels, rope_theta=layer.base, **{"rope_type": "default", **(layer.scaling or {})}
    )
    if np.isfinite(meant.timescales).all() and meant.growth is None:
        if meant.attention_factor != 1.0:
            said = f"without the factor {meant.attention_factor:.6g} of its scaling"
            plain = RopeScaling(meant.timescales)
            yield _changed(Cause.MISSING_SCALING, said, scaling=plain.parameters(layer.base))
        for dtype in ("bfloat16", "float16"):
            rounded = RopeScaling(1.0 / _rounded(1.0 / meant.timescales, dtype), meant.attention_factor)
            if np.isfinite(rounded.timescales).all():
                said = f"with rates rounded to {dtype}"
                yield _changed(Cause.ROUNDED_RATES, said, scaling=rounded.parameters(layer.base))
    if offset := _offset(fault, 1.0 / meant.timescales):
        yield Edit(Cause.START_INDEX_OFF, f"with positions offset by {offset}", partial(_moved, offset))
    if last := _last_of_table(fault):
        said = f"with each position beyond {last} taken for {last}"
        yield Edit(Cause.CLAMPED_TABLE, said, partial(_ended, last))


def _changed(cause: Cause, said: str, **change: Any) -> Edit:
    return Edit(cause, said, partial(with_attributes, change=change))


def _rounded(values: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[np.float64]:
    import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16

    rounded: npt.NDArray[np.float64] = values.astype("float32").astype(dtype).astype(np.float64)
    return rounded


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
    half = channels.shape[-1] // 2
    if layout == "interleaved":
        return channels[..., ::2].astype(np.float64) + 1j * channels[..., 1::2].astype(np.float64)
    return channels[..., :half].astype(np.float64) + 1j * channels[..., half:].astype(np.float64)


def _last_of_table(fault: LayerFault) -> int | None:
    """Returns the position before the first that is turned wrongly."""
    assert fault.actual is not None
    off = np.moveaxis(np.abs(fault.actual - fault.expected), fault.call.layer.sequence_axis[0], 1)
    is_wrong = off.reshape(*off.shape[:2], -1).max(axis=-1) > fault.tolerance
    positions = np.broadcast_to(_positions(fault), is_wrong.shape)
    return int(positions[is_wrong].min()) - 1 if is_wrong.any() else None


def _positions(fault: LayerFault) -> npt.NDArray[np.int64]:
    """Returns the positions of a call, `(batch or 1, length)`."""
    arguments, length = given(fault), fault.expected.shape[fault.call.layer.sequence_axis[0]]
    listed, start = (_array(arguments.get(name)) for name in ("positions", "start_index"))
    positions = np.arange(length) if listed is None else listed
    positions = positions if start is None else positions + start.reshape(-1, 1)
    return np.atleast_2d(positions).astype(np.int64)


def _array(value: Any) -> Array | None:
    return None if value is None else np.asarray(value) if isinstance(value, int) else as_array(value)


def _ended(last: int, fault: LayerFault) -> Array:
    return _called(fault, {"positions": as_tensor(np.minimum(_positions(fault), last).astype(np.int32))})


def _moved(offset: int, fault: LayerFault) -> Array:
    return _called(fault, {"positions": as_tensor((_positions(fault) + offset).astype(np.int32))})


def _called(fault: LayerFault, positions: Mapping[str, Any]) -> Array:
    others = {name: value for name, value in given(fault).items() if name not in ("positions", "start_index")}
    return call(fault.call.layer, {**others, **positions}, fault)
