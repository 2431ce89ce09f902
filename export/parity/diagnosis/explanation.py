"""An edit that gives the artifact's numbers, and its finding."""

from dataclasses import dataclass, replace
from typing import TypeGuard

from keras_pe.export.results import Finding


@dataclass(frozen=True)
class Explanation:
    """An edit that gives the artifact's numbers.

    Attributes:
        finding: The finding.
        is_exact: Whether the numbers agree within their noise, not only approximately.
        is_output: Whether the edit changes the values of the output, whatever the layer computes.
        is_of_all: Whether the edit also explains the outputs beside this one.
        lines: The file and the number of each line that may have the change.
    """

    finding: Finding
    is_exact: bool
    is_output: bool
    is_of_all: bool = True
    lines: frozenset[tuple[str, int]] = frozenset()

    @property
    def line(self) -> tuple[str | None, int | None]:
        """The file and the number of the line of the finding."""
        return self.finding.file, self.finding.line

    def beside(self, other: "Explanation | None") -> "Explanation":
        """Returns the explanation without its line if a change in another line explains as much."""
        if not explains_as_much(other, self) or other.line == self.line:
            return self
        lines = ", ".join(str(number) for _, number in sorted(other.lines))
        return self.without_line(f"A change in line {lines} has equal results.")

    def without_line(self, reason: str) -> "Explanation":
        """Returns the explanation without its line, for a reason."""
        return replace(self, finding=without_line(self.finding, reason))


def explains_as_much(other: Explanation | None, exact: Explanation) -> TypeGuard[Explanation]:
    """Whether another explanation is exact, too, for as many outputs."""
    return other is not None and other.is_exact and other.is_of_all is exact.is_of_all


def without_line(finding: Finding, reason: str) -> Finding:
    """Returns a finding without its line, for a reason."""
    return replace(finding, evidence=f"{finding.evidence} {reason}", line=None, operation=None)
