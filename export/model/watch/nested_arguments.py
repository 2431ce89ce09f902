"""Nested inputs and outputs in the order in which they were written, their names, and a model that takes a flat list.

`keras.tree` sorts the keys of dicts, which is why it is not used.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras_pe.export.model.watch.keras_internals import all_layers

LeafPath = tuple[str | int, ...]

StaticShape = tuple[int, ...]

PartialShape = tuple[int | None, ...]

Shape = tuple[int | str | None, ...]
"""The shape of an input, with `None` or a name for a dynamic dimension."""


def free_shape(shape: Shape) -> PartialShape:
    """Returns a shape with `None` for each dynamic dimension."""
    return tuple(dim if isinstance(dim, int) else None for dim in shape)


def shapes_fit(shape: Shape, other: Shape) -> bool:
    """Whether a tensor may have both shapes. A dynamic dimension is compatible with each size."""
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def sized_shape(shape: Shape, sizes: Mapping[str, int]) -> Any:
    """Returns a shape with sizes in place of their names."""
    return tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in shape)


def leaves(structure: Any, path: LeafPath = ()) -> list[tuple[LeafPath, Any]]:
    """Returns every leaf with the keys and indices that lead to it. Dicts keep their order, `None` holds nothing."""
    if isinstance(structure, Mapping | list | tuple):
        parts: Iterable[tuple[Any, Any]] = structure.items() if isinstance(structure, Mapping) else enumerate(structure)
        return [found for key, value in parts for found in leaves(value, (*path, key))]
    return [] if structure is None else [(path, structure)]


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


def with_leaves(structure: Any, values: Iterable[Any]) -> Any:
    """Returns the same structure with other leaves, given in order."""
    remaining = iter(values)
    return map_leaves(structure, lambda _: next(remaining))


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
        self._counts: dict[str, int] = {}  # the last count of each name: counting a repeated name from 1 again is slow

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


class FlatModel:
    """A model and the description of its inputs.

    Attributes:
        structure: The positional arguments of its call, with names as leaves.
        names: The names of the inputs.
        shapes: The shapes of the inputs, with `None` or a name for a dynamic dimension.
        dtypes: The dtypes of the inputs.
        variables: The variables of the model, each once.
        layers: The model, then every layer in it.
    """

    def __init__(self, model: Any, structure: Any, inputs: Mapping[str, tuple[Shape, str]]) -> None:
        """Keeps the model.

        Args:
            model: The Keras model.
            structure: The positional arguments of its call, with names as leaves.
            inputs: The shape and dtype of each name.
        """
        self._model, self.structure, self.names = model, structure, list(inputs)
        self.shapes = [shape for shape, _ in inputs.values()]
        self.dtypes = [dtype for _, dtype in inputs.values()]
        self.layers = all_layers(model)
        self.variables = list({id(variable): variable for variable in model.variables}.values())

    def specs(self, shapes: Sequence[Any]) -> dict[str, tuple[Any, str]]:
        """Returns shapes of the inputs with their dtypes, by the names of the inputs."""
        return dict(zip(self.names, zip(shapes, self.dtypes, strict=True), strict=True))

    @property
    def settings(self) -> list[Any]:
        """The plain attributes of each layer, which show whether it has been changed, and the shapes of variables."""
        plain = (bool, int, float, str)

        def is_plain(value: Any) -> bool:
            return all(map(is_plain, value)) if isinstance(value, tuple) else value is None or isinstance(value, plain)

        settings = [
            (id(layer), [(key, value) for key, value in vars(layer).items() if is_plain(value)])
            for layer in self.layers
        ]
        return [*settings, *((tuple(each.shape), str(each.dtype)) for each in self.variables)]

    def call(self, arrays: Sequence[Any]) -> Any:
        """Returns what the model returns in inference."""
        named = dict(zip(self.names, arrays, strict=True))
        return self._model(*map_leaves(self.structure, named.__getitem__), training=False)

    def outputs(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the same as a flat list."""
        return [result for _, result in leaves(self.call(arrays))]
