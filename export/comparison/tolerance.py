"""The tolerance policies: the noise floor of Keras, and the tolerance with or without a known floor.

There are three policies. `STRICT` is the policy of a parity check. `accepting` returns the policy of a check whose user
accepts more. `coarse` returns the policy of an export, which accepts all rounding and refuses conversion faults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from keras_pe.export.comparison.float_types import BEYOND, EPSILON, LEAST_NORMAL, epsilon, is_a_limit, is_float, largest
from keras_pe.export.results import Allowance, Array

MAX_FACTOR = 8.0
"""A runtime passes if its error is at most this many times the noise floor.

Two correct float32 runtimes add equal terms in different orders. Over the correct models of the test suite the largest
factor stays below half of this. A weight with an error of 1e-3 gives factors of thousands.
"""

SHARES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""The tolerance without a noise floor, as a share of the largest magnitude of the output (at least 1).

float32: a hundred roundings; float16 and bfloat16: four units in the last place. Integers, booleans and texts must be
equal.
"""

_STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "int8": 1 / 127, "int4": 1 / 7}
"""The step of each accepted precision: a share of each value for floats, and of the largest value for integers."""

STEP_OF_SHARES = 1 / 255
"""The step of 8-bit integers for values from 0 to 1, which quantizers fix for probabilities whatever their values."""

_INTEGERS = ("int8", "int4")

_STEPS_ALLOWED = 4  # number of steps that are allowed without a noise floor

_COARSE_SHARE = 1e-3  # conversion faults exceed this; rounding stays below, even through a hundred layers

_SHORT_SHARE = 5e-2  # for models with short floats, where each intermediate rounding has an error of 2**-11 or 2**-8

_FILL = 1e6  # larger values, such as a mask's -1e9, must not set the tolerance of the values beside them

DECISION_FACTOR = 2.0
"""Rounding to an accepted precision may change a decision if its margin is at most this many times the noise floor.

The limit of the values themselves, `MAX_FACTOR`, is larger. With it, every changed decision would count as a tie.
"""

FAR_OUT = 1e4
"""An error of this many times the tolerance is not rounding, so the noise is not measured again."""

_SAME_SCALE = 4
"""Channels have one scale if their largest values differ by at most this factor."""

_CALIBRATED = 100
"""Integers with a scale are not compared on values that are this many times the usual ones."""

_LEAST_ULPS = 4
"""The least noise floor, in units of the largest value, since Keras may be exact by luck in a small case."""


@dataclass(frozen=True)
class TolerancePolicy:
    """A tolerance policy.

    Attributes:
        shares: The tolerance without a noise floor, as a share of the largest value, by NumPy's type.
        least: The least largest value that a share is taken of.
        limit: The largest share of the largest value that may count as rounding, whatever the noise floor.
        compares_integers: Whether integers, booleans and texts must be equal. An index may change if two values are
            nearly equal.
        is_coarse: Whether fill values are measured separately from other values, and types and values that are not
            finite in Keras are ignored.
        allowance: Differences that the user also accepts.
    """

    shares: Mapping[str, float]
    least: float
    limit: float = np.inf
    compares_integers: bool = True
    is_coarse: bool = False
    allowance: Allowance = field(default_factory=Allowance)

    def serves(self, expected: np.dtype, actual: np.dtype) -> bool:
        """Whether a type may replace another: the same type, or a wider float (half precision exports as float32)."""
        if self.is_coarse or expected == actual:
            return True
        if not (is_float(expected) and is_float(actual)) or actual == np.float64:
            return False
        return epsilon(actual) < epsilon(expected) or actual.name == self.allowance.precision

    def floor(self, expected: Array, floors: Array) -> float | Array:
        """Returns the noise floor of all values, or of each value.

        Args:
            expected: The reference's array of floats.
            floors: The result of `noise_floors`, or of `moves` if a precision is accepted; zeros if unknown.
        """
        if self.allowance.precision is not None:
            return within_lines(np.broadcast_to(floors, expected.shape)) if floors.any() else np.zeros(expected.shape)
        return np.where(is_fill_value(expected), floors[1], floors[0]) if self.is_coarse else float(floors.max())

    def tolerance(self, output: str, expected: Array, truth: Array | None, floor: float | Array) -> float | Array:
        """Returns the tolerance on the absolute difference, for all values or for each.

        Args:
            output: The output's name.
            expected: The reference's array of floats.
            truth: The float64 rebuild's array, if there is one.
            floor: The result of `floor`.
        """
        strict = self.rounding_tolerance(expected, floor, has_truth=truth is not None)
        return self.accepted_tolerance(output, expected if truth is None else truth, strict)

    def rounding_tolerance(
        self, expected: Array, floor: float | Array, *, has_truth: bool, factor: float = MAX_FACTOR
    ) -> float | Array:
        """Returns the absolute difference that rounding explains, for all values or for each.

        The accepted precision counts; the user's tolerances do not.

        Args:
            expected: The reference's array of floats.
            floor: The result of `floor`.
            has_truth: Whether there is a float64 rebuild.
            factor: The largest multiple of the noise floor that counts as rounding.
        """
        share, rounding = self.shares[expected.dtype.name], factor * floor
        if self.allowance.precision is not None:
            return self._precision_tolerance(expected, floor, factor)
        if not self.is_coarse:
            return rounding if has_truth else max(self.flat_tolerance(expected), rounding)
        is_fill = is_fill_value(expected)
        usual, fills = (largest(expected[which], self.least) for which in (~is_fill, is_fill))
        flat = share * np.where(is_fill, np.abs(expected.astype(np.float64)), usual)
        return np.maximum(flat, np.minimum(rounding, self.limit * np.where(is_fill, fills, usual)))

    def _precision_tolerance(self, expected: Array, floor: float | Array, factor: float) -> Array:
        """Returns the error of each value by rounding to the accepted precision, of the value and on the way to it.

        Neither error is measured by values of another scale, such as boxes beside scores.
        """
        precision = self.allowance.precision
        assert precision is not None
        magnitude = np.abs(expected.astype(np.float64))
        magnitude = np.where(np.isfinite(magnitude), magnitude, 0.0)
        step = _steps(magnitude, precision)
        if precision in _INTEGERS:
            step = _steps(within_lines(magnitude), "int8")  # computed values have 8 bits, whatever weights have
            is_share = (expected >= 0) & (expected <= 1)
            is_share = np.broadcast_to(
                is_share.all(axis=tuple(range(expected.ndim - 1)), keepdims=True), expected.shape
            )
            step = np.where(is_share, np.maximum(step, STEP_OF_SHARES), step)
        if not np.any(floor):  # the error on the way is unknown
            step = np.maximum(step, _STEPS_ALLOWED * _steps(within_lines(magnitude), precision))
        strict: Array = SHARES[expected.dtype.name] * np.maximum(within_lines(magnitude), magnitude)
        return np.maximum(strict, factor * floor + step)

    def accepted_tolerance(self, output: str, target: Array, strict: float | Array) -> float | Array:
        """Returns the larger of the strict tolerance and the user's, for all values or for each.

        Args:
            output: The output's name.
            target: The reference of the differences.
            strict: The strict tolerance.
        """
        atol, rtol = self.allowance.atol_of(output), self.allowance.rtol
        if not rtol:
            return np.maximum(strict, atol) if isinstance(strict, np.ndarray) else max(strict, atol)
        magnitude = np.abs(target.astype(np.float64))
        return np.maximum(strict, atol + rtol * np.where(np.isfinite(magnitude), magnitude, 0.0))

    def flat_tolerance(self, expected: Array) -> float:
        """Returns the tolerance on the absolute difference without a noise floor and without the user's tolerances."""
        return self.shares[expected.dtype.name] * largest(expected, self.least) if is_float(expected.dtype) else 0.0

    def largest_beside(self, expected: Array, place: tuple[int, ...]) -> float:
        """Returns the largest magnitude of the values that are measured together with the value at an index."""
        is_fill = is_fill_value(expected)
        return largest(expected[is_fill == is_fill[place]], self.least)


STRICT = TolerancePolicy(SHARES, least=1.0)


def accepting(allowance: Allowance) -> TolerancePolicy:
    """Returns the tolerance policy of a check whose user accepts more than rounding in the model's precision."""
    return replace(STRICT, allowance=allowance)


def within_lines(values: Array) -> Array:
    """Returns for each value the largest value with an equal index on one axis, minimized over the axes.

    Channels of one scale are thus measured together, but not with channels or rows of another scale.
    """
    if values.ndim < 2:
        return values
    pooled = values
    for axis in range(values.ndim):
        others = tuple(other for other in range(values.ndim) if other != axis)
        line = values.max(axis=others, keepdims=True)
        pooled = np.broadcast_to(line, values.shape) if pooled is values else np.minimum(pooled, line)
    return pooled


def moves(answer: Array, target: Array) -> Array:
    """Returns the distance of each value from another answer; 0 if one of the two is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        moved: Array = np.abs(answer.astype(np.float64) - target.astype(np.float64))
    return np.where(np.isfinite(moved), moved, 0.0)


def rounding_noise(array: Array, precision: str | None, rng: np.random.Generator, *, by_channel: bool = False) -> Array:
    """Returns random errors of at most half a step of a precision, or of one unit of float32 without a precision.

    Args:
        array: Floats.
        precision: One of `PRECISIONS`; steps of integers are equal for all values of an array.
        rng: The random numbers.
        by_channel: Whether the step of integers is limited to a few times the step of the value's channel, on the last
            axis.
    """
    drawn = rng.uniform(-1, 1, array.shape)
    if precision is None:
        return array * (EPSILON["float32"] * drawn)
    of: float | Array = np.abs(array)
    if precision in _INTEGERS:
        of = largest(array, 0.0)
        if by_channel and array.ndim > 1:
            channels = np.abs(array.astype(np.float64)).max(axis=tuple(range(array.ndim - 1)), initial=0.0)
            of = np.minimum(of, _SAME_SCALE * channels)
    noise: Array = _steps(of, precision) / 2 * drawn
    return noise


def _steps(magnitude: float | Array, precision: str) -> Array:
    """Returns the step of a precision at magnitudes. The floats near 0 have equal steps."""
    return np.asarray(np.maximum(magnitude, LEAST_NORMAL.get(precision, 0.0)) * _STEPS[precision])


def is_held(array: Array, precision: str, usual: Array) -> bool:
    """Whether an accepted precision can represent values as large as those of an array.

    Args:
        array: Values of an input.
        precision: One of `PRECISIONS`. 8-bit integers only represent values near those of the calibration.
        usual: Usual values of the input, which stand for those of the calibration.
    """
    beyond = BEYOND.get(precision, np.inf)
    if precision == "int8" and array.dtype.kind == "f":
        beyond = _CALIBRATED * max(largest(usual, 0.0), float(np.finfo(array.dtype).tiny))
    return array.dtype.kind != "f" or bool((np.abs(array.astype(np.float64)) < beyond).all())


def coarse(*, is_short: bool, compares_integers: bool) -> TolerancePolicy:
    """Returns the tolerance policy of an export.

    Args:
        is_short: Whether the model computes in floats of 16 bits or fewer.
        compares_integers: Whether rounding of an input cannot change an integer output.
    """
    shares = dict.fromkeys(EPSILON, _SHORT_SHARE if is_short else _COARSE_SHARE)
    return TolerancePolicy(shares, least=1e-2, limit=5e-2, compares_integers=compares_integers, is_coarse=True)


def noise_floor(expected: Array, truth: Array) -> float:
    """Returns the error of Keras itself: the largest `|expected - truth|`, or a few units of rounding if larger.

    Args:
        expected: Keras' output in the model's own precision.
        truth: The output of the float64 rebuild.
    """
    return float(noise_floors(expected, truth).max())


def noise_floors(expected: Array, truth: Array) -> Array:
    """Returns the noise floor of the usual values, and that of the fill values."""
    wide = expected.astype(np.float64)
    usable = np.isfinite(truth) & np.isfinite(wide) & ~is_a_limit(expected, truth)
    is_fill = is_fill_value(truth)
    unit = min(EPSILON[expected.dtype.name], EPSILON["float32"])  # half-precision models export as float32
    floors = np.zeros(2)
    for place, where in enumerate((usable & ~is_fill, usable & is_fill)):
        error = np.abs(wide[where] - truth[where]).max(initial=0.0)
        floors[place] = max(error, _LEAST_ULPS * unit * np.abs(truth[where]).max(initial=0.0))
    return floors


def row_floors(expected: Array, truth: Array) -> Array:
    """Returns the separate noise floor of each row."""
    return np.array([noise_floor(row, true) for row, true in zip(expected, truth, strict=True)])


def is_fill_value(values: Array) -> Array:
    """Returns which values are large enough to hide a score from a softmax."""
    is_fill: Array = np.abs(values.astype(np.float64)) >= _FILL
    return is_fill
