"""Names that every format takes, each used once, and which of two counted names is that of the same thing."""

import re
from collections.abc import Iterable

from keras_pe.export.model.watch.nesting import LeafPath

_NAME = re.compile(r"(?P<base>.*?)(?:_(?P<number>\d+))?(?P<call>#\d+)?", re.DOTALL)

_Children = dict[str, dict[tuple[int, str], str]]


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


def matched_paths(paths: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Returns the path among others of each path that has one there.

    Names count as the same that differ by their numbers alone, and all those of a base by the same: a process that made
    two dense layers before calls the "dense" and "dense_1" of a model "dense_2" and "dense_3".

    Args:
        paths: Names joined by "/".
        others: The same, of the artifact.
    """
    known = set(others)
    ours, theirs = _tree(paths), _tree(known)
    found, todo = dict[str, str](), [("", "")]
    while todo:
        parent, other = todo.pop()
        for base, children in ours.get(parent, {}).items():
            there = theirs.get(other, {}).get(base, {})
            shift = _shift(children, there)
            pairs = [(path, there.get((number + shift, call))) for (number, call), path in children.items()]
            todo += [(path, twin) for path, twin in pairs if twin is not None]
            found |= {path: twin for path, twin in pairs if twin is not None}
    twins = {path: found[f"/{path}"][1:] for path in paths if f"/{path}" in found}
    return {path: twin for path, twin in twins.items() if twin in known}


def _tree(paths: Iterable[str]) -> dict[str, _Children]:
    """Returns the children of each path by their base, its own by their numbers; each path begins with a "/"."""
    tree: dict[str, _Children] = {}
    for path in paths:
        parent = ""
        for name in path.split("/"):
            child = f"{parent}/{name}"
            parts = _NAME.fullmatch(name)
            assert parts is not None  # whatever a name is
            key = (int(parts["number"] or 0), parts["call"] or "")
            tree.setdefault(parent, {}).setdefault(parts["base"], {})[key] = child
            parent = child
    return tree


def _shift(ours: Iterable[tuple[int, str]], theirs: Iterable[tuple[int, str]]) -> int:
    """Returns by how much the numbers of most differ; of several the least."""
    mine, there = set(ours), set(theirs)
    shifts = {0} | {other - number for number, _ in mine for other, _ in there}
    return min(shifts, key=lambda by: (-len({(number + by, call) for number, call in mine} & there), abs(by), by))
