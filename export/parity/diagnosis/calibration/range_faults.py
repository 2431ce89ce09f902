"""The faults of calibration: each a pure function of the measured tensors that yields findings."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import numpy as np

from keras_pe.export.artifacts.onnx_model import layer_of
from keras_pe.export.parity.diagnosis.calibration.operator_faults import (
    coarse_normalization,
    coarse_positions,
    coarse_softmax,
)
from keras_pe.export.parity.diagnosis.calibration.rounding_costs import RoundingCost, RoundingMeasurement
from keras_pe.export.results import Array, Cause, Finding

TINY = 1e-8  # a smaller step is below what runtimes multiply by
_CUT = 4.0  # least error by cutting, in errors by rounding
_DEEP, _MANY = 0.08, 0.05  # by which part of a range, or for which share, values are cut by more than chance
_LESS_THAN = 1 / 16  # largest part of a range that values use, if the range is too wide
_TIMES = 16.0  # least ratio of an outlier to the others
_FEW_STEPS = 8.0  # steps on one side of 0 that are too few
_LOST = 2.5  # usual value of a summand, in steps of the sum, at which rounding takes an eighth of it
_NEGATIVE = 0.01  # least share of values below an unsigned range
_LEAST = 4  # least number of channels
_KNOWN_RANGES = frozenset({"LOGISTIC", "Sigmoid", "Softmax", "TANH", "Tanh"})  # quantizers fix their scales


def find_calibration_faults(
    measurement: RoundingMeasurement, position_layers: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Returns the faults of the tensors whose rounding matters, the costliest first.

    Args:
        measurement: The rounded tensors of a file.
        position_layers: The paths of the model's layers of positions.
    """
    measurement = replace(measurement, position_layers=position_layers)
    telling = [each for each in measurement.costs if each.matters]
    inputs = dict(_other_rows(measurement))
    found = list(inputs.values())
    known: set[tuple[Cause, object]] = {(Cause.CLIPPED_RANGE, limits) for limits in inputs}
    for cost in sorted(telling, key=lambda each: -each.share):
        faults = (fault(cost, measurement) for fault in FAULTS)
        finding = next((each for each in faults if each is not None), None)
        if finding is None or known & (own := {(finding.cause, finding.layer), (finding.cause, cost.limits)}):
            continue  # a layer's tensors, or a tensor that other operators pass on, have one fault
        known |= own
        found.append(finding)
    found += _dependence_on_batch(measurement)
    return tuple(found)


def scale_too_small(cost: RoundingCost, _: RoundingMeasurement) -> Finding | None:
    """Detects a scale below what runtimes multiply by."""
    if not cost.is_fixed or not 0 < cost.step < TINY or not cost.span:
        return None
    text = f"Its scale is {cost.step:.1e}, and its values reach {np.abs(cost.values).max():.3g}."
    return cost.finding(Cause.TINY_SCALE, text, scale=cost.step)


def unsigned_range(cost: RoundingCost, _: RoundingMeasurement) -> Finding | None:
    """Detects values below 0 in a range that begins at 0."""
    low, high = cost.limits
    share = float((cost.values < -cost.step).mean())
    if not cost.is_fixed or low != 0 or share < _NEGATIVE or cost.values.max() > 2 * high:
        return None
    text = (
        f"{share:.1%} of its values are below 0, down to {cost.values.min():.3g}. Its range of {cost.tensor.dtype} "
        f"begins at 0 and ends at {high:.3g}."
    )
    return cost.finding(Cause.UNSIGNED_RANGE, text, share=share)


def clipped_range(cost: RoundingCost, _: RoundingMeasurement) -> Finding | None:
    """Detects a range whose ends cut values by more than rounding."""
    if not cost.is_fixed or not _is_cut(cost):
        return None
    return cost.finding(Cause.CLIPPED_RANGE, describe_cut(cost), share=_share_cut(cost))


def shared_scale(cost: RoundingCost, measurement: RoundingMeasurement) -> Finding | None:
    """Detects tensors of unlike sizes that are added or joined, and the smaller one has too few steps."""
    if cost.tensor.scale is None or cost.tensor.operator not in ("Add", "Concat", "Sub", "Sum"):
        return None
    sizes: dict[str, float] = {}
    for name in cost.tensor.given:
        arrays = [each[name] for each in cost.given if name in each]
        # A bias, or the epsilon of a normalization, has one axis at most.
        if len(arrays) == len(cost.given) and arrays and max(np.squeeze(array).ndim for array in arrays) > 1:
            sizes[name] = float(np.sqrt(np.mean([np.mean(np.square(array, dtype=np.float64)) for array in arrays])))
    small = min(sizes, key=lambda name: sizes[name], default="")
    large = max(sizes, key=lambda name: sizes[name], default="")
    if not small or not 0 < sizes[small] < _LOST * cost.step or sizes[large] < _TIMES * sizes[small]:
        return None
    is_signal = cost.tensor.operator == "Add" and cost.given[0][large].ndim > 1 and _is_constant(large, cost)
    is_position = is_signal or any(map(measurement.is_position, (layer_of(large), layer_of(small), cost.tensor.layer)))
    if _is_constant(small, cost) and not is_position:
        return None  # a bias, whose loss is that of a small constant
    text = (
        f"{_shown(large)} and {_shown(small)} have one scale, with steps of {cost.step:.2g}. The first is usually "
        f"{sizes[large]:.2g}. The second is usually {sizes[small]:.2g}, which is {sizes[small] / cost.step:.2g} steps."
    )
    cause = Cause.COARSE_POSITIONS if is_position else Cause.SHARED_SCALE
    return cost.finding(cause, text, steps=sizes[small] / cost.step)


def outlier_channel(cost: RoundingCost, _: RoundingMeasurement) -> Finding | None:
    """Detects a few channels that are many times larger than the others, which then have too few steps."""
    if not cost.is_fixed:
        return None
    for axis in (-1, 1) if cost.cases[0].ndim > 2 else (-1,):
        sizes = _largest_by_channel(cost, axis)
        if sizes is None or len(sizes) < _LEAST or not (usual := float(np.median(sizes[sizes > 0]))):
            continue
        out = np.flatnonzero(sizes > _TIMES * usual)
        if not out.size or len(out) > max(1, len(sizes) // 10) or usual > _FEW_STEPS * cost.step:
            continue
        where = ", ".join(map(str, out[:4])) + (f" and {len(out) - 4} more" if len(out) > 4 else "")
        text = (
            f"Channel {where} of {len(sizes)} reaches {sizes.max():.3g}, the others usually {usual:.2g}. One scale for "
            f"all leaves these {usual / cost.step:.2g} steps."
        )
        return cost.finding(Cause.OUTLIER_CHANNEL, text, channel=int(out[0]))
    return None


def dead_range(cost: RoundingCost, measurement: RoundingMeasurement) -> Finding | None:
    """Detects a range that is many times wider than the values."""
    low, high = cost.limits
    if not cost.is_fixed or not 0 < cost.span < _LESS_THAN * (high - low):
        return None
    twins = [
        each.name
        for each in measurement.costs
        if each.tensor.key != cost.tensor.key and each.is_fixed and each.step == cost.step and each.span > 4 * cost.span
    ]
    text = (
        f"Its range is {low:.3g} to {high:.3g}, and its values are {cost.values.min():.3g} to {cost.values.max():.3g}: "
        f"{cost.span / cost.step:.2g} of {(high - low) / cost.step:.0f} steps are used."
    )
    if twins and cost.tensor.operator not in _KNOWN_RANGES:
        return cost.finding(
            Cause.SHARED_SCALE, f"{text} {twins[0]!r} has the same scale.", used=cost.span / (high - low)
        )
    return cost.finding(Cause.DEAD_RANGE, text, used=cost.span / (high - low))


FAULTS: tuple[Callable[[RoundingCost, RoundingMeasurement], Finding | None], ...] = (
    scale_too_small,
    unsigned_range,
    clipped_range,
    shared_scale,
    coarse_positions,
    coarse_softmax,
    coarse_normalization,
    outlier_channel,
    dead_range,
)
"""The faults of one tensor. Each is more specific than the later ones."""


def _other_rows(measurement: RoundingMeasurement) -> Iterator[tuple[tuple[float, float], Finding]]:
    """Yields the range of each input with rows that the calibration has not seen, and the finding."""
    for cost in measurement.costs:
        if not cost.is_fixed or not _is_cut(cost) or not cost.matters:
            continue
        values = np.sort(cost.cases[0], axis=None)  # a file may move the values of an input before it rounds them
        given = (
            name for name, array in measurement.inputs.items() if np.array_equal(np.sort(array, axis=None), values)
        )
        if (name := next(given, None)) is not None:
            rows = np.concatenate([_beyond(cost, each).reshape(len(each), -1).any(axis=1) for each in cost.cases])
            text = f"Input {name!r} is beyond its range in {rows.sum()} of {rows.size} rows. "
            found = cost.finding(Cause.OTHER_CALIBRATION, text + describe_cut(cost), share=float(rows.mean()))
            yield cost.limits, replace(found, layer=name)


def _dependence_on_batch(measurement: RoundingMeasurement) -> Iterator[Finding]:
    """Yields a finding if a scale of each call lets the rows of a batch change one row by more than rounding does."""
    worst = max(measurement.batch_shares, default=0.0)
    ratios = {cost.name: _ratio_of_rows(cost) for cost in measurement.costs if cost.tensor.scale is None}
    first = max(ratios, key=lambda name: ratios[name], default="")
    if worst < _TIMES or ratios[first] < _TIMES:
        return
    text = (
        f"Its scale is computed from the whole batch, whose rows differ {ratios[first]:.3g} times in size. A row alone "
        f"and in the batch differ by {worst:.3g} times the usual error of rounding."
    )
    yield Finding(Cause.DEPENDENCE_ON_BATCH, text, first)


def _ratio_of_rows(cost: RoundingCost) -> float:
    ratios = [1.0]
    for each in cost.cases:
        sizes = np.abs(each).reshape(len(each), -1).max(axis=1, initial=0.0) if each.ndim else np.zeros(0)
        sizes = sizes[sizes > 0]
        ratios += [float(sizes.max() / sizes.min())] if sizes.size > 1 else []
    return max(ratios)


def describe_cut(cost: RoundingCost) -> str:
    """Returns a sentence on the share of values that a range cuts."""
    low, high = cost.limits
    return (
        f"Its range is {low:.3g} to {high:.3g}. It cuts {_share_cut(cost):.2%} of the values, which are "
        f"{cost.values.min():.3g} to {cost.values.max():.3g}."
    )


def _beyond(cost: RoundingCost, values: Array) -> Array:
    low, high = cost.limits
    found: Array = (values < low - cost.step) | (values > high + cost.step)
    return found


def _share_cut(cost: RoundingCost) -> float:
    return float(_beyond(cost, cost.values).mean())


def _is_cut(cost: RoundingCost) -> bool:
    low, high = cost.limits
    beyond = np.abs(cost.values - np.clip(cost.values, low, high))
    is_far = beyond.max(initial=0.0) > _DEEP * (high - low) or _share_cut(cost) > _MANY
    return is_far and float(np.sqrt(np.mean(beyond**2))) > _CUT * cost.step / np.sqrt(12)


def _largest_by_channel(cost: RoundingCost, axis: int) -> Array | None:
    """Returns the largest absolute value of each index of an axis over all cases; None if its size varies."""
    sizes = [np.abs(each).max(axis=tuple(i for i in range(each.ndim) if i != axis % each.ndim)) for each in cost.cases]
    if len({each.shape for each in sizes}) != 1:
        return None
    found: Array = np.max(sizes, axis=0)
    return found


def _is_constant(name: str, cost: RoundingCost) -> bool:
    """Whether a tensor that an addition takes has no axis for the batch."""
    taken, result = cost.given[0][name], cost.cases[0]
    return taken.ndim < result.ndim or (taken.shape[0] == 1 < result.shape[0])


def _shown(tensor: str) -> str:
    return repr(layer_of(tensor) or tensor)
