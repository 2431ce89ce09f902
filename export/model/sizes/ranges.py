"""The search for the range of valid sizes of a dimension, which starts at one valid size and needs few trials."""

from collections.abc import Callable, Sequence

from keras_pe.export.model.sizes.dimensions import SizeRange

_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64, 96, 112, 128, 160, 256, 320, 512)
_TELLING = (6720, 1, 2, 32, 512, -1)  # the first is a multiple of most steps
_FAR = 210  # steps from a known size at which the search tests for an end
_FARTHEST = 2**20  # the largest size at which the search looks for the end of a table


def find_range(
    takes: Callable[[int], bool], known: int, guess: SizeRange | None = None, tables: Sequence[int] = ()
) -> SizeRange:
    """Returns the range of sizes around a known one.

    If two sizes with equal remainders are valid, all sizes with this remainder between them count as valid. The range
    has no end if the search does not detect one.

    Args:
        takes: Returns whether a size is valid.
        known: A valid size.
        guess: A likely range, which needs fewer trials to confirm.
        tables: The sizes of tables, such as position embeddings, that may end far beyond the known size; least first.
    """
    if guess and guess.step and known in guess and _is_range(takes, known, guess, bool(tables)):
        return guess
    if guess and not guess.step and not any(takes(known + step) for step in _TELLING if known + step > 0):
        return SizeRange(known, 0)
    step = abs(find_step(takes, known))
    if not step:
        return SizeRange(known, 0)
    least = known - step * _last(lambda steps: takes(known - step * steps), (known - 1) // step)
    if not takes(known + 2 * step):  # the end, or a size that is valid by chance, such as a square next to a square
        return SizeRange(least, step, known + step if takes(known + step) else known)
    for size in tables:
        end = known + step * ((size - known) // step)
        if end < known:
            continue
        if not takes(end):
            break
        if not takes(end + step):
            return SizeRange(least, step, end)
    farthest = _farthest(step, bool(tables))
    if takes(known + step * farthest):
        return SizeRange(least, step)
    bound = _FAR
    while bound < farthest and takes(known + step * bound):  # most tables end soon
        bound *= 2
    return SizeRange(least, step, known + step * _last(lambda steps: takes(known + step * steps), bound))


def find_step(takes: Callable[[int], bool], known: int) -> int:
    """Returns the step from a known size to the next valid size: up if possible, else down, else 0.

    A step that is valid twice has priority, since a single step may be valid by chance. For example, a model that
    rounds sizes up to multiples of 32 accepts 96 and 124, which counts as 128. The next size by this step is 152, which
    the model refuses.
    """
    once: list[int] = []
    for step in _STEPS:
        if takes(known + step):
            if takes(known + 2 * step):
                return step
            once.append(step)
    # Smaller sizes count if the known size is the largest. A size of 1 is broadcast to any other, and shows nothing.
    down = (-step for step in _STEPS if step < known - 1 and takes(known - step))
    return once[0] if once else next(down, 0)


def _is_range(takes: Callable[[int], bool], known: int, guess: SizeRange, has_tables: bool) -> bool:
    least, step, most = guess.least, guess.step, guess.most
    beside = [size for size in (known + step, known - step) if size in guess][:1]
    inside = (least, *beside, most or known + step * _farthest(step, has_tables))
    outside = (least - step, known + step // 2, *([most + step] if most else []))
    return all(map(takes, inside)) and not any(takes(size) for size in outside if size > 0 and size not in guess)


def _farthest(step: int, has_tables: bool) -> int:
    """Returns the number of steps from a known size at which the search tests for an end."""
    return max(_FAR, _FARTHEST // step) if has_tables else _FAR


def _last(holds: Callable[[int], bool], bound: int) -> int:
    """Returns the largest count up to the bound for which `holds` returns True. It does so up to one count from 0."""
    if bound == 0 or holds(bound):
        return bound
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
