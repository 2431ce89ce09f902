"""Measures a file on stored rows: changed decisions, the error of the outputs, and the worst rows."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.name_matching import cast_to_runtime_floats, runner_names
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.border import Border
from keras_pe.export.parity.data.batching import Batch, run_whole_batches
from keras_pe.export.parity.data.shards import Shard
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.batch_measurement import RowMeasurer
from keras_pe.export.parity.work.target_runner import Answer
from keras_pe.export.parity.work.worker_input import Job, OutputRule, TargetCalibration
from keras_pe.export.parity.work.worker_session import Session
from keras_pe.export.quantization.quantization_records import Score
from keras_pe.export.quantization.rows import StoredRows
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

_NEAR = 0.125


@dataclass
class _Sums:
    """Sums over the finite values of one output."""

    count: int = 0
    values: float = 0.0
    squares: float = 0.0
    errors: float = 0.0

    def add(self, expected: Array, actual: Array) -> None:
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        is_finite = np.isfinite(wide) & np.isfinite(other)
        wide, other = wide[is_finite], other[is_finite]
        self.count += wide.size
        self.values += float(wide.sum())
        self.squares += float(np.square(wide).sum())
        self.errors += float(np.square(wide - other).sum())

    @property
    def relative(self) -> float:
        """The root mean square error divided by the standard deviation, or by the largest value if all are equal."""
        if not self.count or not self.errors:
            return 0.0
        mean = self.values / self.count
        spread = max(self.squares / self.count - mean**2, 0.0)
        # A difference of two sums loses digits: below this the values are constant, and their size is the scale.
        scale = spread if spread > 1e-9 * self.squares / self.count else max(self.squares / self.count, 1e-300)
        return float(np.sqrt(self.errors / self.count / scale))


@dataclass
class _Strain:
    """The mean square over rows of the share of the margin that the error takes."""

    rows: int = 0
    total: float = 0.0
    changed: int = 0
    near: int = 0

    def add(self, shares: Array, losses: Array) -> None:
        """Adds the error and the loss of margin of some rows, as shares of the margin."""
        self.rows += len(shares)
        self.total += float(np.square(np.minimum(shares, 1.0)).sum())
        self.changed += int((losses >= 1).sum())
        self.near += int((losses >= _NEAR).sum())

    @property
    def predicted(self) -> float:
        """The rate of changed rows. About one of eight rows that lose an eighth of their margin loses all of it."""
        return max(self.changed, _NEAR * self.near) / self.rows if self.rows else 0.0

    @property
    def root(self) -> float:
        return float(np.sqrt(self.total / self.rows)) if self.rows else 0.0


@dataclass
class Measured:
    """A file on some rows.

    Attributes:
        score: The figures.
        statistics: The counts, and the worst rows.
    """

    score: Score
    statistics: RuntimeStatistics = field(default_factory=RuntimeStatistics)


class FileMeasurer:
    """Measures files that take the place of one artifact.

    Attributes:
        worker: The runtime, with the file that was measured last.
        indices: The outputs that are decisions themselves, as numbers of classes.
    """

    def __init__(self, session: Session, job: Job, calibrated: TargetCalibration, worker: Runner, place: str) -> None:
        """Stores the model and the rules of an artifact; `worker` runs the files, and `place` names the data."""
        self._rules = {name: _by_decision(rule) for name, rule in calibrated.rules.items()}
        # A declaration is a property of the float file, which the check of the written file compares.
        own = replace(calibrated, rules=self._rules, declarations=type(calibrated.declarations)())
        self._measurer = RowMeasurer(session, job, own)
        self.worker, self._names, self._place = worker, runner_names(calibrated.names), place
        self.indices: Collection[str] = ()

    @property
    def decides(self) -> bool:
        """Whether an output decides."""
        return bool(self.indices) or any(rule.decision is not None for rule in self._rules.values())

    @property
    def has_errors(self) -> bool:
        """Whether an output has an error, in contrast to the number of a class."""
        return any(name not in self.indices for name in self._rules)

    def load(self, path: Path) -> None:
        """Opens a file.

        Raises:
            RuntimeFailedError: If the runtime refuses it.
        """
        self.worker.load(path)
        self.worker.names = self._names

    def measure(self, path: Path, rows: StoredRows, most_rows: int | None = None) -> Measured:
        """Runs a file on the first rows, or on all rows. An error of the runtime is part of the result."""
        try:
            self.load(path)
        except RuntimeFailedError as error:
            return Measured(Score(rows.rows, rows.rows, float("inf"), 1.0, failure=str(error)))
        statistics, failure = RuntimeStatistics(), ""
        sums: dict[str, _Sums] = {}
        strains: dict[str, _Strain] = {}
        shard = Shard(0, 0, rows.rows, self._place, None, "")
        for batch, expected in rows.batches(most_rows):
            answer = self._answer(batch)
            failure = failure or answer.message
            measured = self._measurer.measure(batch, expected, [answer])
            statistics = statistics.merge(measured.summarize(shard, statistics))
            if answer.outputs is not None:
                self._add(expected, answer.outputs, sums, strains)
        least = float("inf") if self.has_errors else 0.0
        relative = float("inf") if failure else max((each.relative for each in sums.values()), default=least)
        strain = 1.0 if failure else max((each.root for each in strains.values()), default=0.0)
        predicted = max((each.predicted for each in strains.values()), default=0.0)
        found = Score(statistics.rows, statistics.failed, relative, strain, predicted, failure=failure)
        return Measured(found, statistics)

    def _answer(self, batch: Batch) -> Answer:
        every = slice(0, len(batch.rows))
        try:
            inputs = cast_to_runtime_floats(self.worker, batch.inputs, None)
            return Answer(every, run_whole_batches(self.worker.run, self.worker.inputs, inputs))
        except RuntimeFailedError as error:
            return Answer(every, None, str(error))

    def _add(self, expected: Arrays, actual: Arrays, sums: dict[str, _Sums], strains: dict[str, _Strain]) -> None:
        for name, rule in self._rules.items():
            one, other = expected[name], actual.get(name)
            if other is None or other.shape != one.shape or one.dtype.kind not in "fiub":
                continue
            if name in self.indices:
                changed = (one != other).reshape(len(one), -1).any(axis=1).astype(np.float64)
                strains.setdefault(name, _Strain()).add(changed, changed)
                continue
            sums.setdefault(name, _Sums()).add(one, other)
            if rule.decision is not None and np.isfinite(one).all() and np.isfinite(other).all():
                margins = rule.decision.margins(one)
                errors = rule.decision.errors(np.abs(one.astype(np.float64) - other))
                shares = np.divide(errors, margins, out=np.ones_like(margins), where=margins > 0)
                shares = np.where(errors > 0, shares, 0.0).max(axis=1)
                strains.setdefault(name, _Strain()).add(shares, rule.decision.margin_losses(one, other).max(axis=1))


def class_outputs(outputs: Arrays, border: Border | None) -> frozenset[str]:
    """Returns the outputs that are numbers of classes: those of an adapter, or all integers if no output is a float.

    Args:
        outputs: The outputs of some rows.
        border: The input/output adapter of the file; None without one.
    """
    found = {name for name, array in outputs.items() if array.dtype.name in ("int32", "int64")}
    has_floats = any(is_float(array.dtype) for array in outputs.values())
    steps = {} if border is None else border.postprocessing
    return frozenset(found & steps.keys() if has_floats else found)


def _by_decision(rule: OutputRule) -> OutputRule:
    """Returns the rule without a tolerance: a row fails by its decision, or by a NaN or an infinity on one side."""
    return replace(rule, allowed=None, is_final=True, channels=())
