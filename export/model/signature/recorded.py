"""What a subclassed model takes that says nothing of it: told by the shapes that it was called or built with."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.model.signature.lookups import layers_reached
from keras_pe.export.model.watch.keras_internals import built_shapes
from keras_pe.export.model.watch.known_values import Array, is_integer
from keras_pe.export.model.watch.nesting import FlatModel

_NO_INPUTS = ("training", "mask", "args", "kwargs")
_Met = tuple[tuple[int | None, ...], str | None]  # a shape, and a dtype where it is known


def recorded_signatures(model: Any, examples: Sequence[Mapping[str, Array]]) -> Iterator[list[Any]]:
    """Yields the input signatures that a model may have, those of the freest sizes first; none where nothing is known.

    Args:
        model: The Keras model.
        examples: What it takes, by the names of its arguments or of the keys of its one argument.
    """
    import keras

    structure = _given(model, examples[0]) if examples else _built(model)
    if structure is None:
        return

    def with_sizes(free: Callable[[_Met], tuple[int | None, ...]]) -> list[Any]:
        return [_mapped(argument, lambda met: keras.InputSpec(shape=free(met), dtype=met[1])) for argument in structure]

    met = list(_leaves(structure))
    lengths = {size for each in met for size, free in zip(each[0][1:], _free(each)[1:], strict=True) if free is None}
    candidates: list[Callable[[_Met], tuple[int | None, ...]]] = [
        lambda each: tuple(None if size in lengths else size for size in _free(each)),  # (2, 5) beside (2, 5, 3)
        _free,
        lambda each: (None, *each[0][1:]),
    ]
    if all(None not in shape for shape, _ in met):
        candidates.append(lambda each: each[0])
    tried: list[list[Any]] = []
    for free in candidates:
        if (sizes := [*map(free, met)]) not in tried:
            tried.append(sizes)
            yield with_sizes(free)


def required_arguments(model: Any) -> list[str]:
    """Returns the names of what the model's call must be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.call).parameters.values()
    return [each.name for each in parameters if each.kind in kinds and each.default is each.empty]


def remarks_on_arguments(model: Any, count: int) -> list[str]:
    """Returns a sentence on what the model's call takes besides its first arguments."""
    names = [name for name in inspect.signature(model.call).parameters if name not in _NO_INPUTS][count:]
    rest = ", ".join(map(repr, names))
    return [f"Its call also takes {rest}, which is no input: give `input_signature` to have it." for _ in names[:1]]


def _free(met: _Met) -> tuple[int | None, ...]:
    """Returns a shape with any sizes but that of features, which is the last of numbers that are no indices."""
    shape, dtype = met
    are_indices = is_integer(str(dtype)) and len(shape) < 4  # images have four axes
    return (None,) * len(shape) if are_indices or len(shape) < 2 else (*(None,) * (len(shape) - 1), shape[-1])


def _given(model: Any, example: Mapping[str, Array]) -> list[Any] | None:
    import keras

    def met(array: Array) -> _Met:
        array = np.asarray(array)
        by_default = {"float64": keras.config.floatx(), "int64": "int32"}  # as NumPy makes them of Python's numbers
        dtype = "string" if array.dtype.kind in "OUS" else by_default.get(array.dtype.name, array.dtype.name)
        return array.shape, dtype

    names = list(inspect.signature(model.call).parameters)
    if set(example) <= set(names) and set(required_arguments(model)) <= set(example):
        return [met(example[name]) for name in names if name in example]
    return [{name: met(array) for name, array in example.items()}] if len(required_arguments(model)) == 1 else None


def _built(model: Any) -> list[Any] | None:
    """Returns what Keras has noted, which is the first argument's shapes alone. It notes no dtypes."""
    import keras

    noted = built_shapes(model)
    if noted is None or len(required_arguments(model)) > 1 or keras.backend.backend() != "tensorflow":
        return None
    float_dtype = str(model.input_dtype)
    structure = _mapped(noted, lambda shape: (tuple(shape), None))
    numbers = iter(range(len(list(_leaves(structure)))))
    named = _mapped(structure, lambda _: f"input_{next(numbers)}")
    shapes = [(None, *shape[1:]) for shape, _ in _leaves(structure)]
    flat = FlatModel(model, (named,), {f"input_{i}": (shape, float_dtype) for i, shape in enumerate(shapes)})
    try:
        whole = set(layers_reached(flat, (keras.layers.Embedding,)))
    except Exception:  # what is computed of integers alone refuses all others
        whole = {i for i, shape in enumerate(shapes) if len(shape) <= 2}
    dtypes = iter("int32" if i in whole else float_dtype for i in range(len(shapes)))
    return [_mapped(structure, lambda met: (met[0], next(dtypes)))]


def _mapped(structure: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a structure of shapes with something else in place of each."""
    if isinstance(structure, Mapping):
        return {key: _mapped(value, change) for key, value in structure.items()}
    if _is_leaf(structure):
        return change(structure)
    return type(structure)(_mapped(value, change) for value in structure)


def _leaves(structure: Any) -> Iterator[_Met]:
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if _is_leaf(structure):
        yield structure
    else:
        for value in structure:
            yield from _leaves(value)


def _is_leaf(structure: Any) -> bool:
    """Whether it is a shape, alone or with a dtype."""
    is_met = len(structure) == 2 and (structure[1] is None or isinstance(structure[1], str))
    if is_met and isinstance(structure[0], tuple):
        return True
    return all(dim is None or isinstance(dim, int) for dim in structure)
