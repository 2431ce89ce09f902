"""The statistics of one artifact in one runtime over many rows, which shards return and merge."""

import heapq
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar, Self

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import Shown
from keras_pe.export.parity.npz_archive import read_archive, write_archive
from keras_pe.export.parity.statistics.histogram import Histogram

WORST = 8
"""How many rows are kept whole."""


@dataclass(frozen=True)
class ChangedClass:
    """A change from one class to another.

    Attributes:
        expected: The class of the reference; of a threshold 1 above it, else 0.
        actual: That of the runtime; None where there are too many classes to count pairs.
        count: Decisions.
    """

    expected: int
    actual: int | None
    count: int


@dataclass(frozen=True, repr=False)
class OutputStatistics(Shown):
    """One output over the rows of a shard, or of many.

    Attributes:
        rows: Rows that the runtime answered.
        values: Values that the runtime returned.
        uncompared: Values that are NaN on both sides, or beyond the reference's own floats.
        expected_nan: NaN among the reference's values.
        expected_inf: Infinities among the reference's values.
        actual_nan: NaN among the runtime's values.
        actual_inf: Infinities among the runtime's values.
        clashes: Rows in which a NaN or an infinity stands against something else.
        max_abs_diff: The largest finite difference.
        errors: Largest finite difference of each row.
        out_of_tolerance: Rows whose largest difference is more than is allowed, clashes among them.
        decisions: Decisions taken: one or more a row.
        changed_decisions: Decisions that are others in the runtime.
        changed: Rows with such a decision.
        ties: Rows whose changed decisions all had a margin within the noise: the reference itself is not sure of them.
        classes: How many decisions changed, by the expected and the actual class; the actual one is -1 where there are
            more than `row_decisions.MAX_CLASSES`.
        labels: Decisions that have a label.
        expected_right: Decisions of the reference that agree with their label.
        actual_right: Decisions of the runtime that agree with their label.
        margins: Largest share of a decision's margin that the error takes, in each row. Below 1 no decision changes.
    """

    computed: ClassVar[tuple[str, ...]] = ("changed_classes",)

    rows: int = 0
    values: int = 0
    uncompared: int = 0
    expected_nan: int = 0
    expected_inf: int = 0
    actual_nan: int = 0
    actual_inf: int = 0
    clashes: int = 0
    max_abs_diff: float = 0.0
    errors: Histogram = field(default_factory=Histogram)
    out_of_tolerance: int = 0
    decisions: int = 0
    changed_decisions: int = 0
    changed: int = 0
    ties: int = 0
    labels: int = 0
    expected_right: int = 0
    actual_right: int = 0
    classes: Mapping[tuple[int, int], int] = field(default_factory=dict, metadata={"published": False})
    margins: Histogram = field(default_factory=Histogram)

    def details(self) -> Mapping[str, str]:
        counts = {"rows": self.rows, "values": self.values, "out of tolerance": self.out_of_tolerance}
        counts |= {"changed": self.changed} if self.decisions else {}
        shown = {name: f"{count:,}" for name, count in counts.items()}
        return shown | {"max |diff|": f"{self.max_abs_diff:.1e}"}

    @property
    def changed_classes(self) -> tuple[ChangedClass, ...]:
        """How many decisions changed from which class to which, the most frequent first."""
        found = sorted(self.classes.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ChangedClass(one, None if other < 0 else other, count) for (one, other), count in found)

    def merge(self, other: Self) -> Self:
        """Returns the statistics of both, which must have no row in common."""
        merged: dict[str, Any] = {
            "max_abs_diff": max(self.max_abs_diff, other.max_abs_diff),
            "errors": self.errors.merge(other.errors),
            "classes": dict(Counter(self.classes) + Counter(other.classes)),
            "margins": self.margins.merge(other.margins),
        }
        counts = [name for name in (each.name for each in fields(self)) if name not in merged]
        return type(self)(**merged, **{name: getattr(self, name) + getattr(other, name) for name in counts})

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON's plain values."""
        plain = dict(vars(self))
        plain["errors"] = [list(item) for item in sorted(self.errors.counts.items())]
        plain["margins"] = [list(item) for item in sorted(self.margins.counts.items())]
        plain["classes"] = [[*pair, count] for pair, count in sorted(self.classes.items())]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Returns what `to_dict` was called on."""
        rest = {name: value for name, value in plain.items() if name not in ("errors", "margins", "classes")}
        return cls(
            **rest,
            errors=Histogram(dict(plain["errors"])),
            margins=Histogram(dict(plain["margins"])),
            classes={(expected, actual): count for expected, actual, count in plain["classes"]},
        )


class Severity(IntEnum):
    """How bad a row is, before the size of its error counts."""

    AGREES = 0
    FAILED = 1
    CLASH = 2
    NO_ANSWER = 3


@dataclass(frozen=True, repr=False)
class WorstRow(Shown):
    """One row in one runtime.

    Attributes:
        row: Its number in the data set, from 0.
        place: Location, such as "train.parquet, row 17 of row group 3".
        shard: The number of its shard.
        batch: The number of its batch in the shard.
        severity: How bad it is.
        error: The largest error of an output, in units of what the output may be off.
        inputs: Inputs of the row, without the axis of the batch.
        expected: The reference's outputs.
        actual: The runtime's outputs, empty where it gave none.
        message: The runtime's error where it gave no answer.
    """

    row: int
    place: str
    shard: int
    batch: int
    severity: Severity
    error: float
    inputs: Mapping[str, Any] = field(metadata={"published": False})
    expected: Mapping[str, Any]
    actual: Mapping[str, Any]
    message: str = ""

    def details(self) -> Mapping[str, str]:
        what = self.severity.name.lower().replace("_", " ")
        return {"row": f"{self.row:,}", "place": self.place, "what": what, "error / allowed": f"{self.error:.2g}"}

    @property
    def order(self) -> tuple[int, float, int]:
        """Sorts the worst first; no two rows are equal."""
        return (-int(self.severity), -self.error, self.row)


@dataclass(frozen=True, repr=False)
class RuntimeStatistics(Shown):
    """One artifact in one runtime over the rows of a shard, or of many.

    Attributes:
        rows: Rows fed.
        failed: Rows that fail in any output, or that the runtime gave no answer to.
        unanswered: Rows that the runtime gave no answer to.
        outputs: By name. A result has them with what was allowed.
        problems: Further faults, each with its first row; as many as `WORST`.
        worst: The worst rows, the worst first; as many as `WORST`.
    """

    rows: int = 0
    failed: int = 0
    unanswered: int = 0
    outputs: Mapping[str, OutputStatistics] = field(default_factory=dict, metadata={"published": False})
    problems: Mapping[str, int] = field(default_factory=dict)
    worst: tuple[WorstRow, ...] = ()

    def details(self) -> Mapping[str, str]:
        return {name: f"{count:,}" for name, count in vars(self).items() if isinstance(count, int)}

    @property
    def failing(self) -> tuple[WorstRow, ...]:
        """The worst rows as far as they fail."""
        return tuple(row for row in self.worst if row.severity > Severity.AGREES)

    def merge(self, other: Self) -> Self:
        """Returns the statistics of both, which must have no row in common."""
        names = sorted(self.outputs.keys() | other.outputs.keys())
        none = OutputStatistics()
        first = {
            message: min(found[message] for found in (self.problems, other.problems) if message in found)
            for message in self.problems.keys() | other.problems.keys()
        }
        earliest = sorted(first.items(), key=lambda item: (item[1], item[0]))[:WORST]
        return type(self)(
            rows=self.rows + other.rows,
            failed=self.failed + other.failed,
            unanswered=self.unanswered + other.unanswered,
            outputs={name: self.outputs.get(name, none).merge(other.outputs.get(name, none)) for name in names},
            problems=dict(earliest),
            worst=tuple(heapq.nsmallest(WORST, [*self.worst, *other.worst], key=lambda row: row.order)),
        )

    def to_bytes(self) -> bytes:
        """Returns a zip file that `from_bytes` reads; equal statistics give equal bytes."""
        stream = io.BytesIO()
        outputs = {name: found.to_dict() for name, found in self.outputs.items()}
        write_archive(stream, {**vars(self), "outputs": outputs, "worst": [vars(row) for row in self.worst]})
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Returns what `to_bytes` was called on.

        Raises:
            ValueError: If the bytes are not whole.
        """
        try:
            plain = read_archive(io.BytesIO(content))
            plain["outputs"] = {name: OutputStatistics.from_dict(found) for name, found in plain["outputs"].items()}
            plain["worst"] = tuple(WorstRow(**{**row, "severity": Severity(row["severity"])}) for row in plain["worst"])
            return cls(**plain)
        except Exception as error:  # whatever an archive of something else makes of it
            raise ArgValueError("content", f"must be whole statistics. Received: {error}.") from error
