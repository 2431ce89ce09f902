"""The record of one output in one case: its error, and the distribution of its differences."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from keras_pe.display import Shown


class Problem(StrEnum):
    """Reasons that make two outputs incomparable, or different at any tolerance."""

    MISSING = "missing"
    EXTRA = "extra"
    SHAPE = "shape"
    DTYPE = "dtype"
    NONFINITE = "nonfinite"
    DECISIONS = "decisions"


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """One output in one case: how far the runtime is from the truth, and how far it may be.

    Attributes:
        output: The output's name.
        passed: Whether the difference is within the tolerance and nothing structural is wrong.
        problem: Reason that makes the two incomparable or different at any tolerance, else None. It is a missing or
            extra output, another shape or type, a NaN or an infinity against a number, or too many changed decisions.
        shape: Shape of the reference's array, or of an extra output's.
        dtype: The type of the reference's array, by NumPy's name.
        count: Values compared; those that are NaN on both sides, or beyond the reference's own floats, are not.
        max_abs_diff: Largest absolute difference from the truth; infinity where a NaN meets a number.
        max_rel_diff: Largest difference divided by the magnitude of the true value, where that is not 0.
        max_ulp: Largest difference in units in the last place of the larger of the two values.
        rms: Root mean square of the finite differences.
        cosine: Cosine of the angle between the two arrays as vectors; None where one of them is zero.
        fraction_out_of_tolerance: Share of the values, from 0 to 1.
        worst_index: Index of the largest difference, as a share of its tolerance; None for an empty array.
        expected: The reference's value there, in its own precision.
        truth: The true value there: that of the float64 rebuild, or where there is none the reference's.
        actual: The runtime's value there.
        argmax_agreement: Fraction of the rows whose largest value is at the same place, where the output looks like
            probabilities; None where it does not.
        decisions: The number of decisions; 0 if the output does not decide. A decision is the best class of a row of
            probabilities or scores from 0 to 1. A single probability decides by 0.5, an integer or boolean by itself.
        changed_decisions: The number of decisions that differ in the runtime.
        tied_decisions: The changed decisions whose margin rounding can close, in the model's own precision or in an
            accepted one. The tolerances of the user do not make ties.
        tolerance: The absolute difference that is allowed there.
        tolerance_ratio: The largest difference as a share of what is allowed for its value: at most 1 within tolerance,
            infinity where nothing is allowed.
        min_passing_tolerance: The smallest tolerance that would have passed; infinity where none would.
        noise_floor: Keras' own error there against the float64 rebuild, or how far rounding elsewhere moves its answer;
            None where neither is known.
        noise_ratio: The largest difference as a multiple of the noise floor of its value; None where there is no floor.
        precision_gap: The difference of the model in its own precision from the reference of an artifact that computes
            in a wider precision; None for other artifacts.
        actual_shape: The shape of the runtime's array where the two cannot be compared; None where they were compared,
            or there is no such array.
        actual_dtype: Its type, in the same cases.
    """

    output: str
    passed: bool
    problem: Problem | None
    shape: tuple[int, ...]
    dtype: str
    count: int = 0
    max_abs_diff: float = math.inf
    max_rel_diff: float = math.inf
    max_ulp: float = math.inf
    rms: float = math.inf
    cosine: float | None = None
    fraction_out_of_tolerance: float = 1.0
    worst_index: tuple[int, ...] | None = None
    expected: float | None = None
    truth: float | None = None
    actual: float | None = None
    argmax_agreement: float | None = None
    decisions: int = 0
    changed_decisions: int = 0
    tied_decisions: int = 0
    tolerance: float = 0.0
    tolerance_ratio: float = math.inf
    min_passing_tolerance: float = math.inf
    noise_floor: float | None = None
    noise_ratio: float | None = None
    precision_gap: float | None = None
    actual_shape: tuple[int, ...] | None = None
    actual_dtype: str | None = None

    @property
    def worst_abs_diff(self) -> float:
        """The absolute difference at `worst_index`: the largest one, unless what is allowed depends on the value."""
        if self.truth is None or self.actual is None or not math.isfinite(self.max_abs_diff):
            return self.max_abs_diff
        return abs(self.truth - self.actual)

    @property
    def problem_in_words(self) -> str:
        """The reason that makes the two incomparable or different at any tolerance, or an empty text."""
        match self.problem:
            case None:
                return ""
            case Problem.SHAPE:
                return f"shape {self.actual_shape} instead of {self.shape}"
            case Problem.DTYPE:
                return f"dtype {self.actual_dtype} instead of {self.dtype}"
            case Problem.NONFINITE:
                return "NaN or infinity against a number"
            case Problem.DECISIONS:
                return f"{self.changed_decisions:,} of {self.decisions:,} decisions changed"
            case Problem.MISSING | Problem.EXTRA:
                return str(self.problem)

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        rows = {"output": repr(self.output), "verdict": "passed" if self.passed else "FAILED"}
        if self.problem is not None:
            return rows | {"problem": self.problem_in_words}
        return rows | {"max |diff|": f"{self.max_abs_diff:.1e}", "allowed": f"{self.tolerance:.1e}"}


@dataclass(frozen=True, repr=False)
class ErrorProfile(Shown):
    """How the differences of one output in one case spread, over positions and over magnitudes.

    Attributes:
        case: The case's name.
        output: The output's name.
        axis: The output's axis that positions are counted along: its second, or its only one; None for a scalar.
        size: The number of positions.
        starts: The first position of each bin; a bin ends where the next one starts.
        errors: The largest absolute difference in each bin; infinity where a NaN meets a number.
        noise: Keras' own largest error in each bin; empty where there is no float64 rebuild.
        equal: How many values do not differ at all.
        nonfinite: How many values are NaN or infinite on one side only.
        log10_bin_edges: The edges of the histogram's bins, as decimal logarithms of the absolute difference.
        counts: How many of the other values are in each bin, one fewer than there are edges.
    """

    case: str
    output: str
    axis: int | None
    size: int
    starts: tuple[int, ...]
    errors: tuple[float, ...]
    noise: tuple[float, ...]
    equal: int
    nonfinite: int
    log10_bin_edges: tuple[float, ...]
    counts: tuple[int, ...]

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        largest = max(self.errors, default=0.0)
        return {"output": repr(self.output), "case": repr(self.case), "max |diff|": f"{largest:.1e}"}
