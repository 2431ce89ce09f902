"""Names that every format takes: letters, digits and underscores, starting with a letter, each used once."""

import re
from collections.abc import Iterable

from keras_pe.export.model.nesting import LeafPath


def sanitize(name: str) -> str:
    """Returns the name as TensorFlow's signatures spell it: `a b:0` becomes `a_b_0`, `2nd` becomes `arg_2nd`."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return plain if plain[:1].isalpha() else f"arg_{plain}"


def path_name(path: LeafPath, otherwise: str) -> str:
    """Returns the dict keys (and, below them, indices) that lead to a leaf, or `otherwise` where there is no key."""
    return "_".join(map(str, path)) if any(isinstance(key, str) for key in path) else otherwise


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Returns the names with `_1`, `_2`, ... appended to those that were used before."""
    used = set(taken)
    result = []
    for name in names:
        candidate, count = name, 0
        while candidate in used:
            count += 1
            candidate = f"{name}_{count}"
        used.add(candidate)
        result.append(candidate)
    return result
