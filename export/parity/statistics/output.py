"""How one output of one runtime differs over many rows: counts, maxima and histograms, which merge exactly."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from keras_pe.export.parity.statistics.histogram import Histogram
from keras_pe.shown import Shown


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
        values: Values compared.
        expected_nan: NaN among the reference's values.
        expected_inf: Infinities among the reference's values.
        actual_nan: NaN among the runtime's values.
        actual_inf: Infinities among the runtime's values.
        clashes: Rows in which a NaN or an infinity stands against something else.
        max_abs_diff: The largest finite difference.
        errors: Of each row the largest finite difference.
        out_of_tolerance: Rows whose largest difference is more than is allowed, clashes among them.
        decisions: Decisions taken: one or more a row.
        changed_decisions: Decisions that are others in the runtime.
        changed: Rows with such a decision.
        ties: Rows whose changed decisions all had a margin within the noise: the reference itself is not sure of them.
        classes: How many decisions changed, by the expected and the actual class; the actual one is -1 where there are
            more than `measure.MAX_CLASSES`.
        margins: Of each row the largest share that the error takes of a decision's margin. Below 1 none changes.
    """

    computed: ClassVar[tuple[str, ...]] = ("changed_classes",)

    rows: int = 0
    values: int = 0
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
    classes: Mapping[tuple[int, int], int] = field(default_factory=dict, metadata={"published": False})
    margins: Histogram = field(default_factory=Histogram)

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
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
        pairs = sorted(self.classes.keys() | other.classes.keys())
        merged: dict[str, Any] = {
            "max_abs_diff": max(self.max_abs_diff, other.max_abs_diff),
            "errors": self.errors.merge(other.errors),
            "classes": {pair: self.classes.get(pair, 0) + other.classes.get(pair, 0) for pair in pairs},
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
