"""Names that every format takes: letters, digits and underscores, starting with a letter, each used once."""

import re
from collections.abc import Iterable, Sequence

from keras_pe.export.model.watch.nesting import LeafPath


def sanitize(name: str) -> str:
    """Returns the name as TensorFlow's signatures spell it: `a b:0` becomes `a_b_0`, `2nd` becomes `arg_2nd`."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return plain if plain[:1].isalpha() else f"arg_{plain}"


def path_name(path: LeafPath, otherwise: str) -> str:
    """Returns the dict keys (and, below them, indices) that lead to a leaf, or `otherwise` where there is no key."""
    return "_".join(map(str, path)) if any(isinstance(key, str) for key in path) else otherwise


def renumbered(names: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Returns the names that others have with another number at their end, and those others, in the numbers' order.

    Keras counts layers that have no name from one model to the next: `input_layer_2` and `input_layer_3` here are
    `input_layer` and `input_layer_1` there.
    """
    stems = {_numbered(name)[0] for name in names if name not in others}
    pairs: dict[str, str] = {}
    for stem in stems & {_numbered(name)[0] for name in others if name not in names}:
        some, more = (
            sorted((name for name in side if _numbered(name)[0] == stem), key=lambda name: _numbered(name)[1])
            for side in (names, others)
        )
        if len(some) == len(more):
            pairs.update(zip(some, more, strict=True))
    return pairs


def _numbered(name: str) -> tuple[str, int]:
    """Returns a name without the number at its end, and that number; -1 where it has none."""
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if stem and number.isdecimal() else (name, -1)


class UniqueNames:
    """Gives each name once; a name that was given gets `_1`, `_2`, ... appended."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}  # by name, so that a name that is asked for often is not counted up again

    def give(self, name: str) -> str:
        """Returns the name, or the first one after it that is free."""
        candidate, count = name, self._counts.get(name, 0)
        while candidate in self._taken:
            count += 1
            candidate = f"{name}_{count}"
        self._counts[name] = count
        self._taken.add(candidate)
        return candidate


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Returns the names with `_1`, `_2`, ... appended to those that were used before."""
    free = UniqueNames(taken)
    return [free.give(name) for name in names]
