"""The faults of tensors with too few steps for an encoding of positions, a softmax or a normalization."""

import numpy as np

from keras_pe.export.parity.diagnosis.calibration.rounding_costs import RoundingCost, RoundingMeasurement
from keras_pe.export.results import Cause, Finding

_MASS = 0.25  # largest part of the sum of shares that rounding changes
_RELATIVE, _OFTEN = 0.25, 0.01  # relative error of a divisor, and the share of divisors with it
_RADIANS = 0.1  # largest step of an angle
_DIVIDES = frozenset({("Sqrt", 0), ("Reciprocal", 0), ("Div", 1), ("Log", 0)})
_NORMALIZES = frozenset({("LayerNormalization", 0), ("RMSNormalization", 0)})
"""The operators, each with the place of the tensor among its inputs."""

_IN_PARTS = ("SQUARED_DIFFERENCE", "SQUARE")  # the first operators of a normalization that LiteRT computes in parts


def coarse_positions(cost: RoundingCost, measurement: RoundingMeasurement) -> Finding | None:
    """Detects angles of positions that are rounded to large steps, and positions whose rounding is visible."""
    is_angle = any(reader in ("Sin", "Cos") for reader, _ in cost.tensor.readers)
    if is_angle and cost.step > _RADIANS:
        text = f"Its angles are rounded to steps of {cost.step:.2g} rad, up to {np.abs(cost.values).max():.3g}."
        return cost.finding(Cause.COARSE_POSITIONS, text, step=cost.step)
    spread = float(np.std(cost.values))
    if not measurement.is_position(cost.tensor.layer) or not spread or cost.step * 0.29 < 0.05 * spread:
        return None
    text = f"Its positions are rounded to steps of {cost.step:.2g}, and usually differ by {spread:.2g}."
    return cost.finding(Cause.COARSE_POSITIONS, text, step=cost.step)


def coarse_softmax(cost: RoundingCost, _: RoundingMeasurement) -> Finding | None:
    """Detects shares of about a step or less, of which rounding changes a large part."""
    if cost.tensor.operator != "Softmax":
        return None
    moved = np.concatenate([np.abs(each - cost.round_values(each)).sum(-1).ravel() for each in cost.cases]).mean()
    if moved < _MASS:
        return None
    text = f"Its shares are rounded to steps of {cost.step:.2g}, which changes {moved:.0%} of their sum."
    return cost.finding(Cause.COARSE_SOFTMAX, text, share=float(moved))


def coarse_normalization(cost: RoundingCost, measurement: RoundingMeasurement) -> Finding | None:
    """Detects divisors, numbers below a root, and rows of a normalization, with large relative errors."""
    numbers, errors = cost.values, np.abs(cost.round_values(cost.values) - cost.values)
    text = "A division or a root takes its values."
    if axes := _normalized_axes(cost, measurement):
        numbers = np.concatenate([each.std(axis=axes).ravel() for each in cost.cases])
        errors = np.full(numbers.shape, cost.step / np.sqrt(12))
        text = "A normalization divides its rows by their spread."
    elif not _DIVIDES.intersection(cost.tensor.readers):
        return None
    numbers, errors = np.abs(numbers[numbers != 0]), errors[numbers != 0]
    share = float((errors > _RELATIVE * numbers).mean()) if numbers.size else 0.0
    if share < _OFTEN:
        return None
    text += (
        f" {share:.0%} of them change by more than a quarter. They are rounded to steps of {cost.step:.2g}, and the "
        f"least is {numbers.min():.2g}."
    )
    return cost.finding(Cause.COARSE_NORMALIZATION, text, share=share)


def _normalized_axes(cost: RoundingCost, measurement: RoundingMeasurement) -> tuple[int, ...]:
    """Returns the axes over which a normalization takes the spread of a tensor; none without a normalization."""
    if _NORMALIZES.intersection(cost.tensor.readers):
        return (-1,)
    operators = {operator for operator, _ in cost.tensor.readers}
    if "MUL" not in operators or operators.isdisjoint(_IN_PARTS):
        return ()
    costs, own, key = measurement.costs, cost.cases[0].shape, cost.tensor.key
    averaged = {each.tensor.key for each in costs if each.tensor.operator == "SQUARE" and key in each.tensor.given}
    for each in costs:
        mean, given = each.cases[0].shape, each.tensor.given
        if each.tensor.operator == "MEAN" and given[0] in {key, *averaged} and len(mean) == len(own):
            return tuple(axis for axis, size in enumerate(own) if mean[axis] < size)
    return ()
