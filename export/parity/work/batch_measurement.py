"""Measures one batch in one runtime, row by row: which rows fail, by how much, and the values of the worst rows."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keras_pe.export.comparison.compare import incomparable
from keras_pe.export.comparison.declared_shapes import FalseDeclaration
from keras_pe.export.comparison.differences import differences
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.output_decisions import Decision, last_axis_max
from keras_pe.export.comparison.tolerance import FAR_OUT, MAX_FACTOR, noise_floor
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.data.batching import Batch
from keras_pe.export.parity.data.shards import Shard
from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.export.parity.statistics.runtime_statistics import (
    WORST,
    OutputStatistics,
    RuntimeStatistics,
    Severity,
    WorstRow,
)
from keras_pe.export.parity.work.row_decisions import compare_decisions, count_right
from keras_pe.export.parity.work.target_runner import Answer
from keras_pe.export.parity.work.worker_input import Job, TargetCalibration
from keras_pe.export.parity.work.worker_session import Session
from keras_pe.export.results import Array, Comparison
from keras_pe.export.runtimes.runtime import Arrays


@dataclass
class MeasuredBatch:
    """A batch in one runtime, with the measurements of each row.

    Attributes:
        batch: The rows and their inputs.
        expected: The outputs of the reference.
        answers: The outputs of the runtime, in one or more parts.
        severity: The `Severity` of each row.
        error: The largest error of an output, in units of the tolerance, or of the noise floor without one.
        outputs: The statistics of each output.
        problems: Other problems, each with its first row.
    """

    batch: Batch
    expected: Arrays
    answers: Sequence[Answer]
    severity: Array
    error: Array
    outputs: dict[str, OutputStatistics] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)

    def summarize(self, shard: Shard, so_far: RuntimeStatistics) -> RuntimeStatistics:
        """Returns the statistics of the batch, with those rows that are among the worst of the shard so far."""
        worst = [self._row(place, shard) for place in self._candidates(so_far)]
        return RuntimeStatistics(
            rows=len(self.batch.rows),
            failed=int((self.severity > Severity.AGREES).sum()),
            unanswered=int((self.severity == Severity.NO_ANSWER).sum()),
            outputs=self.outputs,
            problems=self.problems,
            worst=tuple(sorted(worst, key=lambda row: row.order)),
        )

    def _row(self, place: int, shard: Shard) -> WorstRow:
        answer = next(one for one in self.answers if one.rows.start <= place < one.rows.stop)
        actual = {name: array for name, array in (answer.outputs or {}).items() if name in self.expected}
        return WorstRow(
            row=int(self.batch.rows[place]),
            place=shard.place,
            shard=shard.index,
            batch=self.batch.number,
            severity=Severity(int(self.severity[place])),
            error=float(self.error[place]),
            inputs={name: np.array(array[place]) for name, array in self.batch.inputs.items()},
            expected={name: np.array(array[place]) for name, array in self.expected.items()},
            actual={name: np.array(array[place - answer.rows.start]) for name, array in actual.items()},
            message=answer.message,
        )

    def _candidates(self, so_far: RuntimeStatistics) -> list[int]:
        """Returns the indices of the rows that are among the worst so far."""
        places = np.arange(len(self.batch.rows))
        if len(so_far.worst) == WORST:
            last = so_far.worst[-1]
            is_as_bad = (self.severity == last.severity) & (self.error >= last.error)
            places = np.flatnonzero((self.severity > last.severity) | is_as_bad)
        severity, error, numbers = self.severity[places], self.error[places], self.batch.rows[places]
        worst: list[int] = places[np.lexsort((numbers, -error, -severity))[:WORST]].tolist()
        return worst


@dataclass(frozen=True)
class RowVerdicts:
    """The verdicts of `measure_output` on each row.

    Attributes:
        failed: Whether the row fails: a decision changed, a NaN or infinity clashes, or the tolerance is exceeded.
        clash: Whether a NaN or an infinity is on one side only.
        error: The largest finite difference.
    """

    failed: Array
    clash: Array
    error: Array


class RowMeasurer:
    """Compares the outputs of one runtime with the expected outputs, row by row."""

    def __init__(self, session: Session, job: Job, calibrated: TargetCalibration) -> None:
        """Stores the rules of the comparison. The session measures the model's own error on rows out of tolerance."""
        self._session, self._rules, self._declarations = session, calibrated.rules, calibrated.declarations
        self._policy = job.policy

    def measure(self, batch: Batch, expected: Arrays, answers: Sequence[Answer]) -> MeasuredBatch:
        """Compares the runtime's answers to a batch, in one or more parts, with the expected outputs."""
        total = len(batch.rows)
        found = MeasuredBatch(batch, expected, answers, np.zeros(total, np.int64), np.zeros(total))
        for answer in answers:
            rows = answer.rows
            first = int(batch.rows[rows][0])
            if answer.outputs is None:
                found.severity[rows] = Severity.NO_ANSWER
                found.error[rows] = np.inf
                found.problems.setdefault(answer.message, first)
                continue
            inputs, outputs = ({name: array[rows] for name, array in each.items()} for each in (batch.inputs, expected))
            failed = incomparable(outputs, answer.outputs, self._policy)
            broken = self._declarations.broken_by(inputs, answer.outputs, outputs)
            for problem in (*map(_in_words, failed.values()), *map(_declaration_in_words, broken)):
                found.severity[rows] = np.maximum(found.severity[rows], Severity.FAILED)
                found.problems.setdefault(problem, first)
            for name in [name for name in outputs if name not in failed]:
                statistics, own, problem = self._compare(name, inputs, outputs[name], answer.outputs[name])
                if statistics.expected_inf:
                    overflowed = self._count_overflowed(name, inputs, outputs[name])
                    statistics = replace(statistics, uncompared=statistics.uncompared + overflowed)
                rule = self._rules[name]
                if rule.label is not None and rule.decision is not None:
                    labels = batch.labels[rule.label][rows]
                    right = count_right(outputs[name], answer.outputs[name], labels, rule.decision, rule.label)
                    statistics = replace(statistics, **right)
                if problem:
                    found.problems.setdefault(problem, first)
                found.outputs[name] = found.outputs.get(name, OutputStatistics()).merge(statistics)
                severity = np.where(own.clash, Severity.CLASH, np.where(own.failed, Severity.FAILED, Severity.AGREES))
                found.severity[rows] = np.maximum(found.severity[rows], severity)
                scale = max(rule.allowed or rule.unit, float(np.finfo(np.float64).tiny))
                found.error[rows] = np.maximum(found.error[rows], own.error / scale)
        return found

    def _compare(
        self, name: str, inputs: Arrays, expected: Array, actual: Array
    ) -> tuple[OutputStatistics, RowVerdicts, str]:
        """Compares one output. Rows out of tolerance are measured again against the float64 rebuild.

        The floor of a sample does not hold for every row. A row gets a higher floor if the model itself is less exact
        there, or overflows. A row that is still slightly out also gets the model's own error on nearby inputs. The
        returned text is the reason that the rebuild could not measure the rows; it is empty without one.
        """
        rule = self._rules[name]
        noise = MAX_FACTOR * rule.unit
        strict: float | Array = rule.allowed_of(expected) if rule.channels else noise

        def measure_against(
            target: Array | None, allowed: float | Array | None
        ) -> tuple[OutputStatistics, RowVerdicts]:
            if allowed is not None and is_float(expected.dtype):
                allowed = self._policy.accepted_tolerance(name, expected if target is None else target, allowed)
            return measure_output(expected, actual, target, allowed=allowed, decision=rule.decision, noise=noise)

        statistics, rows = measure_against(None, None if rule.allowed is None else strict)
        suspects = np.flatnonzero(rows.failed & (not rule.is_final))
        suspects = suspects[_may_be_noise(expected[suspects], rows.clash[suspects])]
        if not suspects.size:
            return statistics, rows, ""
        try:
            truth = self._compute_truth(name, inputs, expected, suspects)
        except RuntimeFailedError as error:
            return statistics, rows, f"the float64 rebuild refuses rows that are out: {error}"
        if truth is None:
            return statistics, rows, ""
        target = expected.astype(np.float64)
        target[suspects] = truth
        of_rows = np.full((len(expected), *[1] * (expected.ndim - 1)), noise)
        for row, true in zip(suspects, truth, strict=True):
            of_rows[row] = MAX_FACTOR * max(rule.unit, noise_floor(expected[row], true))
        statistics, rows = measure_against(target, of_rows)
        near = np.flatnonzero(rows.failed & ~rows.clash & (rows.error < FAR_OUT * of_rows.reshape(len(expected))))
        own = {key: array[near] for key, array in inputs.items()}
        floors = self._session.noise([own], None)[0] if near.size else {}
        if name in floors:
            of_rows[near] = np.maximum(of_rows[near], MAX_FACTOR * floors[name].reshape(of_rows[near].shape))
            statistics, rows = measure_against(target, of_rows)
        return statistics, rows, ""

    def _count_overflowed(self, name: str, inputs: Arrays, expected: Array) -> int:
        """Returns how many values of the reference are infinite only because its float type cannot represent them."""
        rows = np.flatnonzero(np.isinf(expected).reshape(len(expected), -1).any(axis=1))
        truth = None
        with contextlib.suppress(RuntimeFailedError):
            truth = self._compute_truth(name, inputs, expected, rows)
        return 0 if truth is None else int((np.isinf(expected[rows]) & np.isfinite(truth)).sum())

    def _compute_truth(self, name: str, inputs: Arrays, expected: Array, rows: Array) -> Array | None:
        """Returns the rows of an output by the float64 rebuild; None without an output of their shape."""
        truth = self._session.truth({key: array[rows] for key, array in inputs.items()}).get(name)
        return None if truth is None or truth.shape != expected[rows].shape else truth


def _in_words(comparison: Comparison) -> str:
    """Returns the problem of a comparison, in equal words for all batch sizes, so that equal problems merge."""
    shape, actual = comparison.shape, comparison.actual_shape
    if actual is not None and actual[:1] == shape[:1]:
        comparison = replace(comparison, shape=shape[1:], actual_shape=actual[1:])
    return f"output {comparison.output!r} of a row: {comparison.problem_in_words}"


def _declaration_in_words(broken: FalseDeclaration) -> str:
    """Returns a false declaration in equal words for all batch sizes, so that equal problems merge."""
    declared = broken.declared
    if not isinstance(declared.shape[0], str):
        return str(broken)
    row = replace(broken, declared=replace(declared, shape=declared.shape[1:]), shape=broken.shape[1:])
    return f"of a row: {row}"


def _may_be_noise(expected: Array, clash: Array) -> Array:
    """Returns the rows whose difference may be the model's own error: not those with a NaN against finite values."""
    is_finite = np.isfinite(expected.astype(np.float64)).all(axis=tuple(range(1, expected.ndim)))
    may_be: Array = ~(clash & is_finite)
    return may_be


def measure_output(
    expected: Array,
    actual: Array,
    truth: Array | None = None,
    *,
    allowed: float | Array | None,
    decision: Decision | None,
    noise: float,
) -> tuple[OutputStatistics, RowVerdicts]:
    """Compares one output for the rows of a batch.

    Args:
        expected: The reference's array `(rows, ...)`.
        actual: The runtime's array, of the same shape.
        truth: The reference of the differences, if it is not `expected`.
        allowed: The tolerance on the absolute difference, for all values or by row or value; None if decisions alone
            count. An output that is not a float must be equal.
        decision: The decision rule of the output; None without a decision.
        noise: A changed decision counts as a tie if its margin is at most this.
    """
    rows = len(expected)
    absolute, _, are_finite = differences(expected, actual, truth)[1:]
    if not is_float(expected.dtype):
        allowed, decision = 0.0, None
    difference: Array = absolute.reshape(rows, -1)
    clash: Array = np.zeros(rows, bool)
    nonfinite: dict[str, Any] = {}
    uncompared = 0
    if not are_finite:
        clash = np.any(np.isinf(difference), axis=1)
        difference = np.where(np.isinf(difference), 0.0, difference)
        nonfinite = _count_nonfinite("expected", expected) | _count_nonfinite("actual", actual)
        uncompared = int((np.isnan(expected) & np.isnan(actual)).sum())
    largest = last_axis_max(difference).astype(np.float64, copy=False)
    out = clash
    if isinstance(allowed, np.ndarray):
        out = clash | (difference > allowed.reshape(rows, -1)).any(axis=1)
    elif allowed is not None:
        out = clash | (largest > allowed)
    changed: Array = np.zeros(rows, bool)
    decided: dict[str, Any] = {}
    if decision is not None:
        changed, decided = compare_decisions(expected, actual, difference.reshape(expected.shape), decision, noise)
    statistics = OutputStatistics(
        rows=rows,
        values=expected.size,
        uncompared=uncompared,
        clashes=int(clash.sum()),
        max_abs_diff=float(largest.max(initial=0.0)),
        errors=Histogram.of(largest),
        out_of_tolerance=int(out.sum()),
        **nonfinite,
        **decided,
    )
    return statistics, RowVerdicts(out | changed, clash, largest)


def _count_nonfinite(side: str, array: Array) -> dict[str, int]:
    """Returns the number of NaNs and of infinities, by the field of the statistics."""
    wide = array.astype(np.float64, copy=False)
    return {f"{side}_nan": int(np.isnan(wide).sum()), f"{side}_inf": int(np.isinf(wide).sum())}
