"""Names that every format takes: letters, digits and underscores, starting with a letter, each used once."""

import re
from collections.abc import Iterable

from keras_pe.export.model.watch.nesting import LeafPath


def sanitize(name: str) -> str:
    """Returns the name as TensorFlow's signatures spell it: `a b:0` becomes `a_b_0`, `2nd` becomes `arg_2nd`."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return plain if plain[:1].isalpha() else f"arg_{plain}"


def path_name(path: LeafPath, otherwise: str) -> str:
    """Returns the dict keys (and, below them, indices) that lead to a leaf, or `otherwise` where there is no key."""
    return "_".join(map(str, path)) if any(isinstance(key, str) for key in path) else otherwise


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
