"""The worst rows, whole: which they are, what was fed, what was expected and what came back."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from keras_pe.shown import Shown


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
