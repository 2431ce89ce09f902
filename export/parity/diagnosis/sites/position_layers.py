"""Edits of position layers: other positions, or another schedule of timescales."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.conventions.position_rules import NEAR, POSITION_RULES, PositionRule
from keras_pe.export.parity.diagnosis.call_positions import positions_given
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inferred_rotations import positions_shown, rates_of, signal_of, turns_of
from keras_pe.export.parity.diagnosis.layer_call import (
    LayerFault,
    arguments_of,
    as_array,
    as_tensor,
    call,
    with_attributes,
)
from keras_pe.export.parity.diagnosis.sites.indices import rows_in_table
from keras_pe.export.parity.diagnosis.sites.other_values import other_value
from keras_pe.export.results import Array, Cause, OtherValue
from keras_pe.signal.formula import Float64Array

_OTHER = Cause.attribute("positions")
_SHOWN_POSITIONS = 4

_FEWEST_ROWS = 4  # least number of rows that determine a schedule
_USUAL = {"min_timescale": 1.0, "max_timescale": 1.0e4, "endpoint": True}
_CAUSES = {
    "direction": Cause.FLIPPED_SIGN,
    "start": Cause.START_INDEX_OFF,
    "end": Cause.CLAMPED_TABLE,
    "example": Cause.REPEATED_ROW,
    "other": _OTHER,
}
_OF_STEPS = {Cause.CLAMPED_TABLE: Cause.CLIPPED_INPUT, Cause.START_INDEX_OFF: Cause.SHIFTED_INPUT}


def other_positions(fault: LayerFault) -> Edits:
    """Yields this package's layer at other positions: by each rule, then at the positions that the artifact shows."""
    if _argument(fault) is None:
        yield from _other_starts(fault, NEAR)
        return
    ours, theirs = _positions_of_call(fault), _shown(fault)
    if ours is None:
        yield from _other_starts(fault, NEAR)
        yield from _exchanged_axes(fault)
        return
    for rule in POSITION_RULES:
        for number in rule.tried if theirs is None else _numbers(rule, ours, theirs):
            changed = partial(_move, rule, number)
            parameters = _parameters(fault, ours, changed(ours))
            if parameters:
                cause, description = _CAUSES[rule.kind], rule.description.format(number)
                if parameters[0].name == "timesteps":
                    cause, description = _OF_STEPS.get(cause, cause), description.replace("position", "time step")
                if cause is Cause.START_INDEX_OFF:
                    yield from _other_starts(fault, [int((changed(ours) - ours).flat[0])])
                yield Edit(cause, description, partial(_elsewhere, changed), parameters=parameters)


def any_positions(fault: LayerFault) -> Edits:
    """Yields this package's layer at the positions that the artifact shows."""
    if _argument(fault) is None:
        return
    ours, theirs = _positions_of_call(fault), _shown(fault)
    if ours is None or theirs is None:
        return
    for each in _parameters(fault, ours, theirs):
        description = f"at {each.name} {each.artifact} instead of {each.model}, and others in the same way"
        yield Edit(_OTHER, description, _at_positions_shown, parameters=(each,))


def _other_starts(fault: LayerFault, offsets: Iterable[int]) -> Edits:
    """Yields a layer with another `start_index`, if the positions of the call are counted from it."""
    start: Any = getattr(fault.call.layer, "start_index", None)
    is_given = any(arguments_of(fault).get(name) is not None for name in ("positions", "start_index"))
    for offset in offsets if isinstance(start, int) and not is_given else ():
        yield other_value("start_index", start, start + offset, cause=Cause.START_INDEX_OFF)


def _numbers(rule: PositionRule, ours: Float64Array, theirs: Float64Array) -> list[float]:
    """Returns the number for which a rule maps the model's positions to the artifact's, if there is one."""
    ours = np.broadcast_to(ours, theirs.shape)
    number = rule.fit(ours, theirs)
    if number is None:
        return []
    number = round(number) if abs(number - round(number)) < 1e-3 else number
    led = rule.apply(ours, number)
    return [number] if np.allclose(led, theirs, rtol=1e-5, atol=1e-2) else []


def _move(rule: PositionRule, number: float, positions: Float64Array) -> Float64Array:
    return rule.apply(positions, number)


def _parameters(fault: LayerFault, ours: Float64Array, theirs: Float64Array) -> tuple[OtherValue, ...]:
    """Returns the first positions that differ, in the model and in the artifact; empty if all agree."""
    ours, theirs = np.broadcast_arrays(ours, theirs)
    is_other = np.abs(ours - theirs) > 1e-2
    if not is_other.any():
        return ()
    model, artifact = (tuple(map(_number, each[is_other][:_SHOWN_POSITIONS])) for each in (ours, theirs))
    return (OtherValue(str(_argument(fault)), model, artifact),)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else float(f"{value:.6g}")


def _argument(fault: LayerFault) -> str | None:
    """Returns the name of the position argument of a layer's call; None if the layer is not this package's."""
    import keras_pe

    layer = fault.call.layer
    if isinstance(layer, keras_pe.TimestepEmbedding):
        return "timesteps"
    is_own = type(layer).__module__.startswith(f"{keras_pe.__name__}.layers.")
    return "positions" if is_own and "positions" in inspect.signature(layer.call).parameters else None


def _positions_of_call(fault: LayerFault) -> Float64Array | None:
    """Returns the positions of a call, `(batch or 1, length)`; None for a layer with several axes of positions."""
    positions = positions_given(fault)
    return positions[0] if len(positions) == 1 else None


def _shown(fault: LayerFault) -> Float64Array | None:
    """Returns the positions that the artifact shows, `(batch or 1, length)`; None if it shows none."""
    layer = fault.call.layer
    if fault.actual is not None and hasattr(layer, "combine") and not hasattr(layer, "layout") and layer.weights:
        return _rows_shown(fault, fault.actual)
    turns, rates = turns_of(fault, fault.actual), rates_of(layer, layer.get_config())
    return None if turns is None or rates is None else positions_shown(turns, rates)


def _rows_shown(fault: LayerFault, output: Array) -> Float64Array | None:
    """Returns the rows of a trained table in an output; None if a vector is not a row of the table."""
    signal, weights = signal_of(fault, output), fault.call.layer.get_weights()
    if signal.ndim != 3 or len(weights) != 1:
        return None
    tolerance = max(fault.tolerance, 1e-5 * float(np.abs(output).max()))
    rows = rows_in_table(signal, weights[0], tolerance)
    return None if rows is None else rows.astype(np.float64)


def _at_positions_shown(fault: LayerFault) -> Array | None:
    """Returns the layer's output at the positions that the artifact shows in this case."""
    theirs = _shown(fault)
    return None if theirs is None else _elsewhere(lambda _: theirs, fault)


def _exchanged_axes(fault: LayerFault) -> Edits:
    """Yields a layer of several axes with the positions of two axes exchanged, or of all axes changed alike."""
    positions = positions_given(fault)
    name = str(_argument(fault))
    for one, other in itertools.combinations(range(len(positions)), 2):
        order = list(range(len(positions)))
        order[one], order[other] = other, one
        description = f"with the positions of axes {one} and {other} exchanged"
        parameters = (OtherValue(f"axes of {name}", tuple(range(len(positions))), tuple(order)),)
        yield Edit(_OTHER, description, partial(_on_axes, order=order), parameters=parameters)
    for rule in POSITION_RULES:
        for number in rule.tried[:2]:
            changed = partial(_move, rule, number)
            yield Edit(_CAUSES[rule.kind], rule.description.format(number), partial(_on_axes, change=changed))


def _on_axes(
    fault: LayerFault, order: Sequence[int] | None = None, change: Callable[[Float64Array], Float64Array] | None = None
) -> Array:
    positions = positions_given(fault)
    moved = [positions[axis] for axis in order or range(len(positions))]
    arrays = [_tensor(each if change is None else change(each)) for each in moved]
    return call(fault.call.layer, {**arguments_of(fault), "positions": arrays, "start_index": None}, fault)


def _elsewhere(change: Callable[[Float64Array], Float64Array], fault: LayerFault) -> Array | None:
    """Returns the layer's output at other positions, which `change` makes of its own."""
    name, ours = _argument(fault), _positions_of_call(fault)
    if ours is None:
        return None
    moved = _tensor(change(ours))
    if name == "timesteps":
        changed = {name: as_tensor(as_array(moved).reshape(fault.call.inputs[0].shape))}
    else:
        changed = {"positions": moved, "start_index": None}
    return call(fault.call.layer, {**arguments_of(fault), **changed}, fault)


def _tensor(positions: Float64Array) -> Any:
    """Returns positions as a tensor, of integers if all are whole."""
    is_whole = (positions == np.rint(positions)).all()
    return as_tensor(np.array(positions).astype(np.int32 if is_whole else np.float32))


def other_schedules(fault: LayerFault) -> Edits:
    """Yields this package's layer with the schedule and the first position that other codebases use."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.SinusoidalPositionEncoding) or fault.actual is None or fault.actual.ndim != 3:
        return
    table: Array = signal_of(fault, fault.actual)[0]
    if len(table) < _FEWEST_ROWS or not table.any():
        return
    for match in keras_pe.conventions.identify(table):
        names = " or ".join(match.conventions or match.timescales_of) or "timescales of its own"
        description = f"as {names} encodes, from position {match.start_index}"
        yield Edit(Cause.OTHER_CONVENTION, description, partial(_alone, {**_USUAL, **match.layer_arguments()}))


def _alone(change: Mapping[str, Any], fault: LayerFault) -> Array:
    """Returns the layer's output for its first argument alone, with other attributes."""
    call = replace(fault.call, arguments=fault.call.arguments[:1], keywords={})
    return with_attributes(replace(fault, call=call), dict(change))
