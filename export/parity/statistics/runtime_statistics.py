"""One artifact in one runtime over many rows: what a shard returns, and what shards merge into."""

import heapq
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self

from keras_pe.export.parity.archive import read_archive, write_archive
from keras_pe.export.parity.statistics.output import OutputStatistics
from keras_pe.shown import Shown

WORST = 8
"""How many rows are kept whole."""


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
        place: Where it stands, such as "train.parquet, row 17 of row group 3".
        shard: The number of its shard.
        batch: The number of its batch in the shard.
        severity: How bad it is.
        error: The largest error of an output, in units of what the output may be off.
        inputs: What was fed, without the axis of the batch.
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
        """Returns what a notebook shows, by name."""
        what = self.severity.name.lower().replace("_", " ")
        return {"row": f"{self.row:,}", "place": self.place, "what": what, "error / allowed": f"{self.error:.2g}"}

    @property
    def order(self) -> tuple[int, float, int]:
        """Sorts the worst first; no two rows are equal."""
        return (-int(self.severity), -self.error, self.row)


def keep_worst(rows: Iterable[WorstRow], count: int) -> tuple[WorstRow, ...]:
    """Returns the worst rows, the worst first: the same in whatever order and groups they come."""
    return tuple(heapq.nsmallest(count, rows, key=lambda row: row.order))


@dataclass(frozen=True, repr=False)
class RuntimeStatistics(Shown):
    """One artifact in one runtime over the rows of a shard, or of many.

    Attributes:
        rows: Rows fed.
        failed: Rows that fail in any output, or that the runtime gave no answer to.
        unanswered: Rows that the runtime gave no answer to.
        outputs: By name. A result has them with what was allowed.
        problems: What else went wrong, each with the first row it happened to; as many as `WORST`.
        worst: The worst rows, the worst first; as many as `WORST`.
    """

    rows: int = 0
    failed: int = 0
    unanswered: int = 0
    outputs: Mapping[str, OutputStatistics] = field(default_factory=dict, metadata={"published": False})
    problems: Mapping[str, int] = field(default_factory=dict)
    worst: tuple[WorstRow, ...] = ()

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        return {name: f"{count:,}" for name, count in vars(self).items() if isinstance(count, int)}

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
            worst=keep_worst([*self.worst, *other.worst], WORST),
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
        except ValueError as error:
            raise ValueError(f"`content` must be whole statistics. Received: {error}.") from error
        plain["outputs"] = {name: OutputStatistics.from_dict(found) for name, found in plain["outputs"].items()}
        plain["worst"] = tuple(WorstRow(**{**row, "severity": Severity(row["severity"])}) for row in plain["worst"])
        return cls(**plain)
