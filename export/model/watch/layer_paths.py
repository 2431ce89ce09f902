"""The path of each layer in a model, and the matching paths of the same layers in a rebuilt model."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from keras_pe.export.model.watch.keras_internals import parts_of, scope_name

_NAME = re.compile(r"(?P<base>.*?)(?:_(?P<number>\d+))?(?P<call>#\d+)?", re.DOTALL)

_Children = dict[str, dict[tuple[int, str], str]]


def layer_paths(model: Any) -> list[tuple[str, Any]]:
    """Returns every layer and operation of a model once, with its path. Layers within recurrent layers are excluded.

    The path of a layer with an empty name has the name of its scope instead: an empty path is that of the model.
    """
    import keras

    found: dict[int, tuple[str, Any]] = {}
    taken = set[str]()

    def walk(prefix: str, parent: Any) -> None:
        for part in parts_of(parent):
            if id(part) in found or isinstance(part, keras.layers.InputLayer):
                continue
            path = name = f"{prefix}{part.name or scope_name(part.name)}"
            count = 1
            while path in taken:
                count += 1
                path = f"{name}~{count}"
            taken.add(path)
            found[id(part)] = (path, part)
            if not isinstance(part, keras.layers.RNN):
                walk(f"{path}/", part)

    walk("", model)
    return list(found.values())


def layer_scopes(layers: Iterable[str]) -> dict[str, str]:
    """Returns the paths of layers by the paths of their scopes."""
    return {"/".join(map(scope_name, path.split("/"))): path for path in layers}


def find_layer(path: str, scopes: Mapping[str, str]) -> str:
    """Returns the path of the innermost layer around an operator, without the model's name; empty between layers.

    Args:
        path: The path of the operator in the traced graph.
        scopes: The result of `layer_scopes` for the layers of the model.
    """
    found = ""
    for scope in path.split("/")[:-1]:
        inner = f"{found}/{scope}" if found else scope
        known = (each for each in (re.sub(r"_\d+$", "", inner), inner) if each in scopes)
        found = next(known, found)
    return scopes.get(found, "")


def is_within(path: str, layer: str) -> bool:
    """Whether a path is that of a layer, or leads to one within it. The empty path is that of the model."""
    return not layer or f"{path}/".startswith(f"{layer}/")


def is_inside(path: str, layer: str) -> bool:
    """Whether a path leads to a layer within another one, see `is_within`."""
    return path != layer and is_within(path, layer)


def matched_paths(paths: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Returns the matching path in `others` of each path that has one.

    Names match if only their numbers differ, and if all numbers of one base differ by an equal amount. For example, a
    process with two earlier dense layers names the "dense" and "dense_1" of a model "dense_2" and "dense_3".

    Args:
        paths: Names joined by "/".
        others: The paths of the artifact, also joined by "/".
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
    """Returns the most common difference of the numbers of one call; the least of several."""
    if {*ours} <= {*theirs}:  # nearly always, and there may be thousands of layers
        return 0
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, call in theirs:
        numbers[call].append(number)
    shifts = Counter(other - number for number, call in ours for other in numbers[call])
    return min({0, *shifts}, key=lambda by: (-shifts[by], abs(by), by))
