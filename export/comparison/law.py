"""How far a runtime may be from Keras: the noise floor of Keras itself, what it allows, and what is allowed without it.

There is one law in three strictnesses: `STRICT`, that of a parity check; that of a check whose user accepts more, which
`accepting` gives; and that of an export, which `coarse` gives. It forgives whatever rounding may do, and refuses faults
of conversion.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from keras_pe.export.results import Allowance, Array

MAX_FACTOR = 8.0
"""A runtime passes while its error is at most this many times the noise floor.

Two sound float32 runtimes add the same terms in another order. Over the sound models of the test suite the largest
factor seen stays under half of this, and a weight that is off by 1e-3 gives thousands.
"""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next larger value of each type."""

SHARES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""What is allowed where the noise floor is not known, as a share of the largest magnitude of the output (at least 1).

float32: a hundred roundings' worth; float16 and bfloat16: four units in the last place. Integers, booleans and texts
must be equal.
"""

_STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "int8": 1 / 127, "int4": 1 / 7}
"""The step of each precision that may be accepted: of floats as a share of each value, of integers of the largest."""

_STEP_OF_SHARES = 1 / 255
"""The step of integers of 8 bits that hold values from 0 to 1, as quantizers give probabilities whatever they are."""

_INTEGERS = ("int8", "int4")

_STEPS_ALLOWED = 4  # where the noise floor is not known

_COARSE_SHARE = 1e-3  # a fault of conversion is off by more, rounding by less, even through a hundred layers
_SHORT_SHARE = 5e-2  # where a model computes in short numbers: a rounding on the way weighs 2**-11 or 2**-8 each time

_FILL = 1e6  # a value from here on, such as a mask's -1e9, is no measure for those beside it

_BEYOND = {"float32": 2.0**128, "float16": 2.0**16, "bfloat16": 2.0**128}
"""What is too large for each type; no float64 is for its own."""

DECISION_FACTOR = 2.0
"""Rounding to an accepted precision may change a decision whose margin is at most this many times the noise floor.

The values themselves may be off by `MAX_FACTOR` times as much: all changes of decisions would be ties by that measure.
"""

FAR_OUT = 1e4
"""A fault that is this many times the tolerance is none of rounding, and no second look at the noise is taken."""

_SAME_SCALE = 4
"""Channels whose largest values differ by no more than this factor are of one scale."""

_CALIBRATED = 100
"""Integers with a scale are not held against values that are this many times the usual ones."""

_LEAST_ULPS = 4
"""The noise floor is at least this many units of the largest value: Keras may be right by luck in a small case."""


@dataclass(frozen=True)
class Law:
    """What a comparison looks at, and how much it allows.

    Attributes:
        shares: What is allowed where the noise floor is not known, as a share of the largest value, by NumPy's type.
        least: The least that a largest value counts as.
        limit: Nothing above this share of the largest value is taken for rounding, whatever the noise floor.
        compares_integers: Whether integers, booleans and texts must be equal. An index may change where two values are
            all but equal.
        is_coarse: Whether fill values are measured apart from what is beside them, and types and what is not finite in
            Keras are left aside.
        allowance: What a user accepts beside it.
    """

    shares: Mapping[str, float]
    least: float
    limit: float = np.inf
    compares_integers: bool = True
    is_coarse: bool = False
    allowance: Allowance = field(default_factory=Allowance)

    def serves(self, expected: np.dtype, actual: np.dtype) -> bool:
        """Whether a type may stand for another: itself, or a wider float (half precision exports through float32)."""
        if self.is_coarse or expected == actual:
            return True
        if not (is_float(expected) and is_float(actual)) or actual == np.float64:
            return False
        return epsilon(actual) < epsilon(expected) or actual.name == self.allowance.precision

    def floor(self, expected: Array, floors: Array) -> float | Array:
        """Returns the noise floor of all values, or of each.

        Args:
            expected: The reference's array of floats.
            floors: As `noise_floors` returns them, or as `moves` does where a precision is accepted; zeros where none
                are known.
        """
        if self.allowance.precision is not None:
            return within_lines(np.broadcast_to(floors, expected.shape)) if floors.any() else np.zeros(expected.shape)
        return np.where(_is_fill(expected), floors[1], floors[0]) if self.is_coarse else float(floors.max())

    def allowed(self, output: str, expected: Array, truth: Array | None, floor: float | Array) -> float | Array:
        """Returns the absolute difference that is allowed, for all values or for each.

        Args:
            output: The output's name.
            expected: The reference's array of floats.
            truth: The float64 rebuild's, if there is one.
            floor: As `floor` returns it.
        """
        strict = self.rounded(expected, floor, has_truth=truth is not None)
        return self.accepted(output, expected if truth is None else truth, strict)

    def rounded(
        self, expected: Array, floor: float | Array, *, has_truth: bool, factor: float = MAX_FACTOR
    ) -> float | Array:
        """Returns the absolute difference that rounding explains, for all values or for each.

        The precision that the user accepts counts; the user's tolerances do not.

        Args:
            expected: The reference's array of floats.
            floor: As `floor` returns it.
            has_truth: Whether there is a float64 rebuild.
            factor: How many times the noise floor rounding may reach.
        """
        share, rounding = self.shares[expected.dtype.name], factor * floor
        if self.allowance.precision is not None:
            return self._of_precision(expected, floor, factor)
        if not self.is_coarse:
            return rounding if has_truth else max(self.flat_tolerance(expected), rounding)
        is_fill = _is_fill(expected)
        usual, fills = (largest(expected[which], self.least) for which in (~is_fill, is_fill))
        flat = share * np.where(is_fill, np.abs(expected.astype(np.float64)), usual)
        return np.maximum(flat, np.minimum(rounding, self.limit * np.where(is_fill, fills, usual)))

    def _of_precision(self, expected: Array, floor: float | Array, factor: float) -> Array:
        """Returns what rounding to the accepted precision may do to each value: on the way, and of the value itself.

        Neither is measured by values of another scale, such as those of the boxes beside which scores stand.
        """
        precision = self.allowance.precision
        assert precision is not None
        magnitude = np.abs(expected.astype(np.float64))
        magnitude = np.where(np.isfinite(magnitude), magnitude, 0.0)
        step = magnitude * _STEPS[precision]
        if precision in _INTEGERS:
            step = within_lines(magnitude) * _STEPS["int8"]  # what is computed has 8 bits, whatever is stored
            is_share = (expected >= 0) & (expected <= 1)
            is_share = np.broadcast_to(
                is_share.all(axis=tuple(range(expected.ndim - 1)), keepdims=True), expected.shape
            )
            step = np.where(is_share, np.maximum(step, _STEP_OF_SHARES), step)
        if not np.any(floor):  # what rounding on the way does is not known
            step = np.maximum(step, _STEPS_ALLOWED * _STEPS[precision] * within_lines(magnitude))
        strict: Array = SHARES[expected.dtype.name] * np.maximum(within_lines(magnitude), magnitude)
        return np.maximum(strict, factor * floor + step)

    def accepted(self, output: str, target: Array, strict: float | Array) -> float | Array:
        """Returns the difference that either the strict law or the user allows, for all values or for each.

        Args:
            output: The output's name.
            target: What the differences are measured against.
            strict: What the strict law allows.
        """
        atol, rtol = self.allowance.atol_of(output), self.allowance.rtol
        if not rtol:
            return np.maximum(strict, atol) if isinstance(strict, np.ndarray) else max(strict, atol)
        magnitude = np.abs(target.astype(np.float64))
        return np.maximum(strict, atol + rtol * np.where(np.isfinite(magnitude), magnitude, 0.0))

    def flat_tolerance(self, expected: Array) -> float:
        """Returns the absolute difference that is allowed where the noise floor is not known, tolerances aside."""
        return self.shares[expected.dtype.name] * largest(expected, self.least) if is_float(expected.dtype) else 0.0

    def largest_beside(self, expected: Array, place: tuple[int, ...]) -> float:
        """Returns the largest magnitude of the values that are measured together with the one at a place."""
        is_fill = _is_fill(expected)
        return largest(expected[is_fill == is_fill[place]], self.least)


STRICT = Law(SHARES, least=1.0)


def accepting(allowance: Allowance) -> Law:
    """Returns the law of a check whose user accepts more than rounding in the model's own precision explains."""
    return replace(STRICT, allowance=allowance)


def within_lines(values: Array) -> Array:
    """Returns for each value the largest that shares an index with it, of the axis where that is least.

    So channels of one scale are measured together, and neither with channels nor with rows of another.
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
    """Returns how far each value of an answer is from another answer; 0 where one of them is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        moved: Array = np.abs(answer.astype(np.float64) - target.astype(np.float64))
    return np.where(np.isfinite(moved), moved, 0.0)


def rounding_noise(array: Array, precision: str | None, rng: np.random.Generator, *, by_channel: bool = False) -> Array:
    """Returns random errors like those of rounding: half a step of a precision, a unit of float32 where none is given.

    Args:
        array: Floats.
        precision: One of `PRECISIONS`; steps of integers are as large for every value of an array.
        rng: The random numbers.
        by_channel: Whether the largest value that gives integers their step counts for no more than a few times the
            largest of a channel of the last axis.
    """
    drawn = rng.uniform(-1, 1, array.shape)
    if precision is None:
        return array * (EPSILON["float32"] * drawn)
    of: float | Array = array
    if precision in _INTEGERS:
        of = largest(array, 0.0)
        if by_channel and array.ndim > 1:
            channels = np.abs(array.astype(np.float64)).max(axis=tuple(range(array.ndim - 1)), initial=0.0)
            of = np.minimum(of, _SAME_SCALE * channels)
    return of * (_STEPS[precision] / 2 * drawn)


def is_held(array: Array, precision: str, usual: Array) -> bool:
    """Whether a precision that may be accepted has numbers as large as those of an array.

    Args:
        array: Values of an input.
        precision: One of `PRECISIONS`. Integers of 8 bits hold what they were calibrated for, which is not far from
            the usual values.
        usual: Usual values of the input.
    """
    beyond = _BEYOND.get(precision, np.inf)
    if precision == "int8" and array.dtype.kind == "f":
        beyond = _CALIBRATED * max(largest(usual, 0.0), float(np.finfo(array.dtype).tiny))
    return array.dtype.kind != "f" or bool((np.abs(array.astype(np.float64)) < beyond).all())


def coarse(*, is_short: bool, compares_integers: bool) -> Law:
    """Returns the law of an export.

    Args:
        is_short: Whether the model computes in numbers of 16 bits or fewer.
        compares_integers: Whether no rounding of an input can have moved an integer.
    """
    shares = dict.fromkeys(EPSILON, _SHORT_SHARE if is_short else _COARSE_SHARE)
    return Law(shares, least=1e-2, limit=5e-2, compares_integers=compares_integers, is_coarse=True)


def is_float(dtype: np.dtype) -> bool:
    """Whether the type is a float of any kind; bfloat16 is not one to NumPy."""
    return dtype.name in EPSILON


def epsilon(dtype: np.dtype) -> float:
    """Returns the distance from 1 to the next larger value of the type."""
    return EPSILON[dtype.name]


def largest(values: Array, least: float) -> float:
    """Returns the largest finite magnitude, or `least` where that is more."""
    wide = values.astype(np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=least))


def noise_floor(expected: Array, truth: Array) -> float:
    """Returns the error that Keras itself makes: the largest `|expected - truth|`, or a few units of rounding.

    Args:
        expected: Keras' output in the model's own precision.
        truth: The same from the float64 rebuild.
    """
    return float(noise_floors(expected, truth).max())


def noise_floors(expected: Array, truth: Array) -> Array:
    """Returns the noise floor of the values that may be measured together, and that of the fill values beyond them."""
    wide = expected.astype(np.float64)
    usable = np.isfinite(truth) & np.isfinite(wide) & ~is_a_limit(expected, truth)
    is_fill = _is_fill(truth)
    unit = min(EPSILON[expected.dtype.name], EPSILON["float32"])  # half-precision models export through float32
    floors = np.zeros(2)
    for place, where in enumerate((usable & ~is_fill, usable & is_fill)):
        error = np.abs(wide[where] - truth[where]).max(initial=0.0)
        floors[place] = max(error, _LEAST_ULPS * unit * np.abs(truth[where]).max(initial=0.0))
    return floors


def row_floors(expected: Array, truth: Array) -> Array:
    """Returns the noise floor of each row, by itself."""
    return np.array([noise_floor(row, true) for row, true in zip(expected, truth, strict=True)])


def is_a_limit(expected: Array, truth: Array) -> Array:
    """Returns where Keras answers with the limit of its type, as the maximum of nothing is: the rebuild has another."""
    with np.errstate(invalid="ignore"):
        is_beyond = np.abs(truth) >= _BEYOND.get(expected.dtype.name, np.inf)
    limited: Array = is_beyond & np.isfinite(truth) & np.isfinite(expected.astype(np.float64))
    return limited


def _is_fill(values: Array) -> Array:
    is_fill: Array = np.abs(values.astype(np.float64)) >= _FILL
    return is_fill
