"""What the cases of a check have exercised."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableCoverage:
    """How much of a table was read, over all cases together.

    Attributes:
        input: The input whose ids are its rows.
        rows: How many it has.
        read: How many of them were asked for.
    """

    input: str
    rows: int
    read: int


@dataclass(frozen=True)
class Coverage:
    """What the cases have exercised that the reference has answered.

    How much of the stored weights was compared, and which branches of conditions were taken, is told of each artifact.

    Attributes:
        sizes: The sizes of each dynamic dimension, by its name, in ascending order.
        tables: One for each input of ids.
    """

    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tables: tuple[TableCoverage, ...] = ()
