"""Nested inputs and outputs: dicts, lists and tuples of leaves, in the order in which they were written.

`keras.tree` sorts the keys of dicts, which is why it is not used.
"""

from collections.abc import Callable, Mapping
from typing import Any

LeafPath = tuple[str | int, ...]


def leaves(structure: Any) -> list[tuple[LeafPath, Any]]:
    """Returns every leaf with the keys and indices that lead to it. Dicts keep their order, `None` holds nothing."""
    return [(path, leaf) for path, leaf in _walk(structure, ()) if leaf is not None]


def map_leaves(structure: Any, replace: Callable[[Any], Any]) -> Any:
    """Returns the same structure with every leaf replaced."""
    if isinstance(structure, Mapping):
        return {key: map_leaves(value, replace) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        items = [map_leaves(value, replace) for value in structure]
        if isinstance(structure, list):
            return items
        return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
    return None if structure is None else replace(structure)


def align(structure: Any, other: Any) -> list[tuple[Any, Any]]:
    """Returns the leaves of two structures side by side, dicts matched by key.

    Raises:
        ValueError: If the structures differ. One leaf may stand for a structure of one, which is how Keras returns it.
    """
    flat = leaves(structure)
    if len(flat) == 1 and not isinstance(other, Mapping | list | tuple):
        return [(flat[0][1], other)]
    found = dict(leaves(other))
    if len(found) != len(flat) or any(path not in found for path, _ in flat):
        raise ValueError(
            f"The structure must be {map_leaves(structure, str)}. Received: a structure with the entries "
            f"{', '.join('.'.join(map(str, path)) for path in found) or 'none'}."
        )
    return [(leaf, found[path]) for path, leaf in flat]


def _walk(structure: Any, path: LeafPath) -> list[tuple[LeafPath, Any]]:
    if isinstance(structure, Mapping):
        return [found for key, value in structure.items() for found in _walk(value, (*path, key))]
    if isinstance(structure, list | tuple):
        return [found for index, value in enumerate(structure) for found in _walk(value, (*path, index))]
    return [(path, structure)]
