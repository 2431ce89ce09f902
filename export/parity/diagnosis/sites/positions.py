"""Position layers at other positions than the model's, or with another schedule of sines."""

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, as_tensor, call, given, with_attributes
from keras_pe.export.parity.diagnosis.turns import positions_given, positions_shown, rates_of, signal_of, turns_of
from keras_pe.export.results import Array, Cause, OtherValue
from keras_pe.signal.formula import Float64Array

_OTHER = Cause.attribute("positions")
_NEAR = [k for size in range(1, 9) for k in (size, -size)]  # offsets that are tried where no positions are shown
_SHOWN_POSITIONS = 4

_FEWEST_ROWS = 4  # that tell a schedule
_USUAL = {"min_timescale": 1.0, "max_timescale": 1.0e4, "endpoint": True}


@dataclass(frozen=True)
class _Rule:
    """A way in which an artifact may take other positions than the model.

    Attributes:
        cause: What that is called.
        said: The change in words, with the number in braces.
        apply: Returns the positions of the artifact, `(batch, length)`, from those of the model and a number.
        fit: Returns the number from the positions of the model and those that the artifact shows; None if there is no
            such number.
        tried: Numbers that are tried if the artifact shows no positions; `(0.0,)` for a rule without a number.
    """

    cause: Cause
    said: str
    apply: Callable[[Float64Array, float], Float64Array]
    fit: Callable[[Float64Array, Float64Array], float | None] = lambda ours, theirs: 0.0
    tried: Sequence[float] = (0.0,)


def _ratio(ours: Float64Array, theirs: Float64Array) -> float | None:
    return float((ours * theirs).sum() / (ours * ours).sum()) if ours.any() else None


def _last_taken(ours: Float64Array, theirs: Float64Array) -> float | None:
    return float(theirs.max()) if (theirs < ours).any() else None


def _first_taken(ours: Float64Array, theirs: Float64Array) -> float | None:
    return float(theirs.min()) if (theirs > ours).any() else None


def _wrap(ours: Float64Array, theirs: Float64Array) -> float | None:
    fallen = (ours - theirs)[theirs < ours]
    return float(fallen.min()) if fallen.size and fallen.min() > 0 else None


_OF_STEPS = {Cause.CLAMPED_TABLE: Cause.CLIPPED_INPUT, Cause.START_INDEX_OFF: Cause.SHIFTED_INPUT}
_TABLE_ENDS = (*range(1, 16), *(2**k - 1 for k in range(5, 18)))
_RULES = (
    _Rule(Cause.FLIPPED_SIGN, "turning the other way round", lambda p, _: -p),
    _Rule(
        Cause.START_INDEX_OFF,
        "with positions offset by {:g}",
        lambda p, k: p + k,
        lambda ours, theirs: float(np.median(theirs - ours)),
        _NEAR,
    ),
    _Rule(
        Cause.START_INDEX_OFF,
        "from position {:g}, whatever start it is given,",
        lambda p, k: p - p[:, :1] + k,
        lambda ours, theirs: float(theirs.flat[0]),
        (),
    ),
    _Rule(
        Cause.CLAMPED_TABLE,
        "with each position beyond {0:g} taken for {0:g}",
        np.minimum,
        _last_taken,
        _TABLE_ENDS,
    ),
    _Rule(_OTHER, "with the position times {:g}", lambda p, k: p * k, _ratio, (2.0, 0.5)),
    _Rule(_OTHER, "with each position below {0:g} taken for {0:g}", np.maximum, _first_taken, (0.0, 1.0)),
    _Rule(
        _OTHER,
        "with the position of the first element for all elements of an example",
        lambda p, _: np.broadcast_to(p[:, :1], p.shape),
    ),
    _Rule(
        _OTHER,
        "with the position of the last element for all elements of an example",
        lambda p, _: np.broadcast_to(p[:, -1:], p.shape),
    ),
    _Rule(
        Cause.REPEATED_ROW,
        "with the positions of the first example for all examples",
        lambda p, _: np.broadcast_to(p[:1], p.shape),
    ),
    _Rule(_OTHER, "with the positions in reverse order", lambda p, _: p[:, ::-1]),
    _Rule(_OTHER, "with positions rounded down", lambda p, _: np.floor(p)),
    _Rule(_OTHER, "with positions rounded to the nearest integer", lambda p, _: np.rint(p)),
    _Rule(
        _OTHER,
        "with positions counted from 0 again after every {:g}",
        np.mod,
        _wrap,
        (4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
    ),
    _Rule(
        _OTHER,
        "with position {:g} everywhere",
        lambda p, k: np.full_like(p, k),
        lambda ours, theirs: float(theirs.flat[0]) if np.ptp(theirs) == 0 else None,
        (0.0, 1.0),
    ),
)


def other_positions(fault: LayerFault) -> Edits:
    """Yields this package's layer at other positions: by each rule, then at whatever positions the artifact shows."""
    if _argument(fault) is None:
        return
    ours, theirs = _given(fault), _shown(fault)
    if ours is None:
        yield from _exchanged_axes(fault)
        return
    for rule in _RULES:
        for number in rule.tried if theirs is None else _numbers(rule, ours, theirs):
            changed = partial(_moved, rule, number)
            parameters = _parameters(fault, ours, changed(ours))
            if parameters:
                cause, said = rule.cause, rule.said.format(number)
                if parameters[0].name == "timesteps":
                    cause, said = _OF_STEPS.get(cause, cause), said.replace("position", "time step")
                if cause is Cause.START_INDEX_OFF and _counts_from_its_start(fault):
                    start = fault.call.layer.start_index
                    other = start + int((changed(ours) - ours).flat[0])
                    parameters = (OtherValue("start_index", start, other),)
                    said = f"with start_index={other} instead of {start}"
                yield Edit(cause, said, partial(_elsewhere, changed), parameters=parameters)


def any_positions(fault: LayerFault) -> Edits:
    """Yields this package's layer at whatever positions the artifact shows."""
    if _argument(fault) is None:
        return
    ours, theirs = _given(fault), _shown(fault)
    if ours is None or theirs is None:
        return
    for each in _parameters(fault, ours, theirs):
        said = f"at {each.name} {each.artifact} instead of {each.model}, and others alike,"
        yield Edit(_OTHER, said, _at_positions_shown, parameters=(each,))


def _counts_from_its_start(fault: LayerFault) -> bool:
    """Whether the positions of a call are counted from the integer that the layer is configured with."""
    is_given = any(given(fault).get(name) is not None for name in ("positions", "start_index"))
    return isinstance(getattr(fault.call.layer, "start_index", None), int) and not is_given


def _numbers(rule: _Rule, ours: Float64Array, theirs: Float64Array) -> list[float]:
    """Returns the number of a rule that leads from the model's positions to the artifact's, if there is one."""
    ours = np.broadcast_to(ours, theirs.shape)
    number = rule.fit(ours, theirs)
    if number is None:
        return []
    number = round(number) if abs(number - round(number)) < 1e-3 else number
    led = rule.apply(ours, number)
    return [number] if np.allclose(led, theirs, rtol=1e-5, atol=1e-2) else []


def _moved(rule: _Rule, number: float, positions: Float64Array) -> Float64Array:
    return rule.apply(positions, number)


def _parameters(fault: LayerFault, ours: Float64Array, theirs: Float64Array) -> tuple[OtherValue, ...]:
    """Returns the first positions that differ, those of the model and those of the artifact; nothing if none does."""
    ours, theirs = np.broadcast_arrays(ours, theirs)
    is_other = np.abs(ours - theirs) > 1e-2
    if not is_other.any():
        return ()
    model, artifact = (tuple(map(_number, each[is_other][:_SHOWN_POSITIONS])) for each in (ours, theirs))
    return (OtherValue(str(_argument(fault)), model, artifact),)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else float(f"{value:.6g}")


def _argument(fault: LayerFault) -> str | None:
    """Returns the name of the argument of a layer's call that holds its positions; None if it is not this package's."""
    import keras_pe

    layer = fault.call.layer
    if isinstance(layer, keras_pe.TimestepEmbedding):
        return "timesteps"
    is_own = type(layer).__module__.startswith(f"{keras_pe.__name__}.layers.")
    return "positions" if is_own and "positions" in inspect.signature(layer.call).parameters else None


def _given(fault: LayerFault) -> Float64Array | None:
    """Returns the positions of a call, `(batch or 1, length)`; None for a layer with several axes of them."""
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
    """Returns which rows of a trained table an output has; None if one of them is not a row of the table."""
    signal, weights = signal_of(fault, output), fault.call.layer.get_weights()
    if signal.ndim != 3 or len(weights) != 1:
        return None
    table = weights[0]
    apart = np.stack([np.abs(table - row).max(axis=-1) for row in signal.reshape(-1, signal.shape[-1])])
    if apart.min(axis=1).max() > max(fault.tolerance, 1e-5 * np.abs(output).max()):
        return None
    rows: Float64Array = apart.argmin(axis=1).reshape(signal.shape[:2]).astype(np.float64)
    return rows


def _at_positions_shown(fault: LayerFault) -> Array | None:
    """Returns what the layer gives at the positions that the artifact shows in this very case."""
    theirs = _shown(fault)
    return None if theirs is None else _elsewhere(lambda _: theirs, fault)


def _exchanged_axes(fault: LayerFault) -> Edits:
    """Yields a layer of several axes with the positions of two of them in each other's places, or all moved alike."""
    positions = positions_given(fault)
    name = str(_argument(fault))
    for one, other in itertools.combinations(range(len(positions)), 2):
        order = list(range(len(positions)))
        order[one], order[other] = other, one
        said = f"with the positions of axes {one} and {other} in each other's places"
        parameters = (OtherValue(f"axes of {name}", tuple(range(len(positions))), tuple(order)),)
        yield Edit(_OTHER, said, partial(_on_axes, order=order), parameters=parameters)
    for rule in _RULES:
        for number in rule.tried[:2]:
            changed = partial(_moved, rule, number)
            yield Edit(rule.cause, rule.said.format(number), partial(_on_axes, change=changed))


def _on_axes(
    fault: LayerFault, order: Sequence[int] | None = None, change: Callable[[Float64Array], Float64Array] | None = None
) -> Array:
    positions = positions_given(fault)
    moved = [positions[axis] for axis in order or range(len(positions))]
    arrays = [_tensor(each if change is None else change(each)) for each in moved]
    return call(fault.call.layer, {**given(fault), "positions": arrays, "start_index": None}, fault)


def _elsewhere(change: Callable[[Float64Array], Float64Array], fault: LayerFault) -> Array | None:
    """Returns what the layer gives at other positions, which are made of its own."""
    name, ours = _argument(fault), _given(fault)
    if ours is None:
        return None
    moved = _tensor(change(ours))
    if name == "timesteps":
        changed = {name: as_tensor(as_array(moved).reshape(fault.call.inputs[0].shape))}
    else:
        changed = {"positions": moved, "start_index": None}
    return call(fault.call.layer, {**given(fault), **changed}, fault)


def _tensor(positions: Float64Array) -> Any:
    """Returns positions as a tensor: of integers where all are whole."""
    is_whole = (positions == np.rint(positions)).all()
    return as_tensor(np.array(positions).astype(np.int32 if is_whole else np.float32))


def other_schedules(fault: LayerFault) -> Edits:
    """Yields this package's layer as other codebases would compute it, or from where its rows begin."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.SinusoidalPositionEncoding) or fault.actual is None or fault.actual.ndim != 3:
        return
    table: Array = signal_of(fault, fault.actual)[0]
    if len(table) < _FEWEST_ROWS or not table.any():
        return
    for match in keras_pe.conventions.identify(table):
        names = " or ".join(match.conventions or match.timescales_of) or "timescales of its own"
        said = f"as {names} encodes, from position {match.start_index},"
        yield Edit(Cause.OTHER_CONVENTION, said, partial(_alone, {**_USUAL, **match.layer_arguments()}))


def _alone(change: Mapping[str, Any], fault: LayerFault) -> Array:
    """Returns what the layer gives for its first argument alone, with other attributes."""
    call = replace(fault.call, arguments=fault.call.arguments[:1], keywords={})
    return with_attributes(replace(fault, call=call), dict(change))
