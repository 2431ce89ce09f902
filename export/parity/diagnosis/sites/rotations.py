"""A rotary encoding with other pairs, positions or rates: an offset, or a table's end, is read off the numbers."""

from collections.abc import Iterator, Mapping
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

_FARTHEST = 8192  # offset that is looked for where the rotated channels can be seen
_NEAR = [k for size in range(1, 5) for k in (size, -size)]  # those that are tried elsewhere


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
    is_shown = fault.actual is not None
    for offset in [_offset(fault, 1.0 / _scaling_of(layer).timescales)] if is_shown else _NEAR:
        if offset:
            yield Edit(Cause.START_INDEX_OFF, f"with positions offset by {offset}", partial(_moved, offset))
    for last in [_last_of_table(fault)] if is_shown else _lasts(fault):
        if last:
            said = f"with each position beyond {last} taken for {last}"
            yield Edit(Cause.CLAMPED_TABLE, said, partial(_ended, last))


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
        yield Cause.MISSING_SCALING, said, {"scaling": RopeScaling(meant.timescales).parameters(layer.base)}
    for dtype in ("bfloat16", "float16"):
        rounded = RopeScaling(1.0 / _rounded(1.0 / meant.timescales, dtype), meant.attention_factor)
        if np.isfinite(rounded.timescales).all():
            said = f"with rates rounded to {dtype}"
            yield Cause.ROUNDED_RATES, said, {"scaling": rounded.parameters(layer.base)}


def _is_of_one_axis(layer: Any) -> bool:
    """Whether one sequence of positions turns all pairs, at rates that are the same in every call."""
    may_change = layer.scaling is not None and layer.scaling["rope_type"] == "longrope"
    return len(layer.sequence_axis) == 1 and not layer.sections and not may_change


def _scaling_of(layer: Any) -> RopeScaling:
    channels = layer.rotary_dim or layer.input_spec.axes[layer.feature_axis]
    return rope_timescales(
        channels=channels, rope_theta=layer.base, **{"rope_type": "default", **(layer.scaling or {})}
    )


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


def _ended(last: int, fault: LayerFault) -> Array:
    return _called(fault, {"positions": as_tensor(np.minimum(_positions(fault), last).astype(np.int32))})


def _moved(offset: int, fault: LayerFault) -> Array:
    return _called(fault, {"positions": as_tensor((_positions(fault) + offset).astype(np.int32))})


def _called(fault: LayerFault, positions: Mapping[str, Any]) -> Array:
    others = {name: value for name, value in given(fault).items() if name not in ("positions", "start_index")}
    return call(fault.call.layer, {**others, **positions}, fault)
