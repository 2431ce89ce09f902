"""Which sizes a dynamic dimension takes: from the least one in equal steps, found by asking."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64, 96, 112, 128, 160, 256, 320, 512)
FAR = 210  # steps from a size that was found, where a model is asked whether there is an end
_FARTHEST = 2**20  # a size, up to which an end of tables is looked for
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


def find_range(
    takes: Callable[[int], bool],
    known: int,
    guess: SizeRange | None = None,
    are_within_tables: Callable[[int], bool] = lambda size: True,
) -> SizeRange:
    """Returns the range of sizes around a known one.

    Between two sizes of equal remainder that are taken, all others are held to be taken; so are all beyond the last
    that was asked for, unless tables end there.

    Args:
        takes: Whether a size is taken.
        known: A size that is taken.
        guess: A range that it may be: the questions to confirm it are fewer.
        are_within_tables: Whether tables, such as those of positions, are as long as a size asks. That costs little,
            however large the size; one that is not may be taken.
    """
    if guess and guess.step and known in guess and _is_range(takes, known, guess, are_within_tables):
        return guess
    step = abs(find_step(takes, known))
    if not step:
        return SizeRange(known, 0)
    below = (known - 1) // step  # so many steps down is a size of at least 1
    least = known - step * _last(lambda steps: takes(known - step * steps), below)
    most = end_of_tables(known, step, are_within_tables)
    if most and takes(most) and not takes(most + step):
        return SizeRange(least, step, most)
    if takes(known + step * FAR):
        return SizeRange(least, step)
    return SizeRange(least, step, known + step * _last(lambda steps: takes(known + step * steps), FAR))


def _is_range(
    takes: Callable[[int], bool], known: int, guess: SizeRange, are_within_tables: Callable[[int], bool]
) -> bool:
    least, step, most = guess.least, guess.step, guess.most
    inside = (least, known + step, most or known + FAR * step)
    outside = (least - step, known + step // 2, *([most + step] if most else []))
    return (
        all(map(takes, inside))
        and not any(takes(size) for size in outside if size > 0 and size not in guess)
        and (most is not None or not end_of_tables(known, step, are_within_tables))
    )


def end_of_tables(known: int, step: int, are_within_tables: Callable[[int], bool]) -> int | None:
    """Returns the last size, in steps from a known one, for which tables are long enough; None if no end is met."""
    steps = FAR
    while are_within_tables(known + step * steps):
        steps *= 2
        if known + step * steps > _FARTHEST:
            return None
    return known + step * _last(lambda count: are_within_tables(known + step * count), steps)


def find_step(takes: Callable[[int], bool], known: int) -> int:
    """Returns what leads from a known size to the next that is taken: up if there is one, else down, else 0.

    A step that can be taken twice comes first. One alone may be a chance: a model that rounds sizes up to multiples of
    32 takes 96 and, 28 larger, 124, which counts as 128, but not 152.
    """
    once: list[int] = []
    for step in _STEPS:
        if takes(known + step):
            if takes(known + 2 * step):
                return step
            once.append(step)
    # Where the known size is the largest. A size of 1 tells nothing: it is broadcast to any other.
    down = (-step for step in _STEPS if step < known - 1 and takes(known - step))
    return once[0] if once else next(down, 0)


def spread(ranges: Mapping[str, SizeRange], batch: int, start: int, factor: int = 1) -> dict[str, int]:
    """Returns a size for each dimension, all different as far as the ranges allow.

    Args:
        ranges: Of the dimensions, by name. Names that begin with "batch" are told from lengths.
        batch: The size wanted of a batch.
        start: The size wanted of the first length; the next ones are a little larger.
        factor: How many times the least size of its range a length is at least.
    """
    wanted: dict[str, int] = {}
    length = start
    for name, own in ranges.items():
        is_batch = name.startswith("batch")
        wanted[name] = batch if is_batch else max(length, own.least * factor)
        length += 0 if is_batch else 2
    return fitted(ranges, wanted)


def fitted(ranges: Mapping[str, SizeRange], wanted: Mapping[str, int]) -> dict[str, int]:
    """Returns a size of each range, next to the one that is wanted and unlike the others as far as the ranges allow."""
    sizes: dict[str, int] = {}
    for name, own in ranges.items():
        size = own.near(wanted[name])
        while size in sizes.values() and own.near(size + 1) > size:
            size = own.near(size + 1)
        sizes[name] = size
    return sizes


def counted(ranges: Mapping[str, SizeRange], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the size of each range that its count leads to, see `SizeRange.nth`; what has no range is its count."""
    known = {name: ranges.get(name, SizeRange()) for name in counts}
    return fitted(known, {name: known[name].nth(count) for name, count in counts.items()})


def ranges_to_json(ranges: Mapping[str, SizeRange]) -> str:
    """Returns the ranges as an artifact keeps them in its metadata."""
    return json.dumps({name: asdict(own) for name, own in ranges.items()})


def ranges_from_json(text: str) -> dict[str, SizeRange]:
    """Returns what `ranges_to_json` wrote."""
    return {name: SizeRange(**{**own, "given": tuple(own["given"])}) for name, own in json.loads(text).items()}


def describe_ranges(ranges: Mapping[str, SizeRange]) -> list[str]:
    """Returns what is known of the dimensions: "height, width: multiples of 4, from 32"."""
    names: dict[str, list[str]] = {}
    for name, sizes in ranges.items():
        names.setdefault(str(sizes), []).append(name)
    return [f"{', '.join(same)}: {sizes}" for sizes, same in names.items()]


def _last(holds: Callable[[int], bool], bound: int) -> int:
    """Returns the largest count up to the bound for which something holds, which holds at 0 and ends once."""
    if bound == 0 or holds(bound):
        return bound
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
