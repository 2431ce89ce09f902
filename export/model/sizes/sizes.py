"""The sizes that one dynamic dimension takes: from the least one in equal steps, or those that were given."""

from dataclasses import dataclass, replace

_LARGE = 1024  # two such sizes are a large image


@dataclass(frozen=True)
class SizeRange:
    """The sizes of one dimension: `least`, `least + step`, and so on; or those that were given.

    Attributes:
        least: The least size.
        step: What two neighbors differ by; 0 where the least size is the only one.
        most: The largest size, None where none was met.
        given: The sizes that the caller gave, which stand for all others.
    """

    least: int = 1
    step: int = 1
    most: int | None = None
    given: tuple[int, ...] = ()

    def near(self, size: int) -> int:
        """Returns the least size of the range that is not below the given one, or its last."""
        if self.given:
            return next((own for own in sorted(self.given) if own >= size), max(self.given))
        if not self.step:
            return self.least
        steps = max(0, -(-(size - self.least) // self.step))
        if self.most is not None:
            steps = min(steps, (self.most - self.least) // self.step)
        return self.least + steps * self.step

    def nth(self, count: int) -> int:
        """Returns the size that stands so far from the start, or one about as large if it would be too large."""
        if self.given:
            return sorted(self.given)[(count - 1) % len(self.given)]
        size = self.least + (count - 1) * self.step
        return self.near(size if size <= _LARGE else max(count, self.least))

    def bounded(self, end: str, size: int) -> "SizeRange":
        """Returns the range with another end, "least" or "most"."""
        return replace(self, least=size) if end == "least" else replace(self, most=size)

    def __contains__(self, size: int) -> bool:
        return self.near(size) == size

    def __str__(self) -> str:
        if self.given:
            return f"{', '.join(map(str, self.given))} (given)"
        if not self.step or self.least == self.most:
            return f"{self.least} only"
        ends = f"from {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        if self.step == 1:
            return "any" if ends == "from 1" else ends
        kind = "multiples" if self.least % self.step == 0 else f"{self.least % self.step} more than multiples"
        return f"{kind} of {self.step}, {ends}"
