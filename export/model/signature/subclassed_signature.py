"""The input signatures of a subclassed model that follow from recorded calls or from an example."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.model.signature.declared_inputs import required_arguments
from keras_pe.export.model.signature.fixed_sizes import FixedSize, Origin, fixed_between
from keras_pe.export.model.watch.keras_internals import all_layers, built_shapes
from keras_pe.export.model.watch.known_values import is_integer
from keras_pe.export.model.watch.nested_arguments import FlatModel, PartialShape, leaves, with_leaves
from keras_pe.export.model.watch.symbolic_trace import layers_reached
from keras_pe.export.results import Array


@dataclass(frozen=True)
class _Met:
    """A shape, and a dtype if it is known."""

    shape: PartialShape
    dtype: str | None = None


def recorded_signatures(
    model: Any, examples: Sequence[Mapping[str, Array]]
) -> Iterator[tuple[list[Any], list[FixedSize]]]:
    """Yields the possible input signatures of a model, each with its fixed sizes; none if the inputs are unknown.

    The signature with most free sizes comes first.

    Args:
        model: The Keras model.
        examples: Examples of the inputs, by the names of the model's arguments or of the keys of its only argument.
    """
    import keras

    structure = _example_structure(model, examples[0]) if examples else _built(model)
    if structure is None:
        return
    met = [each for _, each in leaves(structure)]
    known, free = [each.shape for each in met], [*map(_free, met)]
    pairs = [*zip(known, free, strict=True)]
    lengths = {size for shape, own in pairs for size, dim in zip(shape[1:], own[1:], strict=True) if dim is None}
    candidates: list[list[PartialShape]] = [
        [tuple(None if size in lengths else size for size in own) for own in free],  # (2, 5) beside (2, 5, 3)
        free,
        [(None, *shape[1:]) for shape in known],
    ]
    if any(getattr(layer, "stateful", False) for layer in all_layers(model)):  # its states fix the batch, no length
        candidates.append([(shape[0], *own[1:]) for shape, own in pairs])
    if all(None not in shape for shape in known):
        candidates.append(known)
    origin = Origin.EXAMPLE if examples else Origin.CALLED
    for place, shapes in enumerate(candidates):
        if shapes not in candidates[:place]:
            specs = (keras.InputSpec(shape=own, dtype=each.dtype) for own, each in zip(shapes, met, strict=True))
            yield with_leaves(structure, specs), fixed_between(free, shapes, origin)


def recorded_shapes(model: Any) -> list[PartialShape]:
    """Returns the shapes that Keras has recorded for a model's first argument, flat; an empty list without a record."""
    noted = built_shapes(model)
    return [] if noted is None else [met.shape for _, met in leaves(_with_shape_leaves(noted))]


def _free(met: _Met) -> PartialShape:
    """Returns a shape with free sizes. The last axis stays fixed unless the input contains indices."""
    shape = met.shape
    are_indices = is_integer(str(met.dtype)) and len(shape) < 4  # images have four axes
    return (None,) * len(shape) if are_indices or len(shape) < 2 else (*(None,) * (len(shape) - 1), shape[-1])


def _example_structure(model: Any, example: Mapping[str, Array]) -> list[Any] | None:
    import keras

    def met(array: Array) -> _Met:
        array = np.asarray(array)
        by_default = {"float64": keras.config.floatx(), "int64": "int32"}  # NumPy's dtypes for Python numbers
        dtype = "string" if array.dtype.kind in "OUS" else by_default.get(array.dtype.name, array.dtype.name)
        return _Met(array.shape, dtype)

    names = list(inspect.signature(model.call).parameters)
    if set(example) <= set(names) and set(required_arguments(model)) <= set(example):
        return [met(example[name]) for name in names if name in example]
    return [{name: met(array) for name, array in example.items()}] if len(required_arguments(model)) == 1 else None


def _built(model: Any) -> list[Any] | None:
    """Returns the recorded shapes of a model's only argument, with inferred dtypes, since Keras records only shapes."""
    import keras

    noted = built_shapes(model)
    if noted is None or len(required_arguments(model)) > 1 or keras.backend.backend() != "tensorflow":
        return None
    float_dtype = str(model.input_dtype)
    structure = _with_shape_leaves(noted)
    shapes = {f"input_{place}": met.shape for place, (_, met) in enumerate(leaves(structure))}
    inputs = {name: ((None, *shape[1:]), float_dtype) for name, shape in shapes.items()}
    flat = FlatModel(model, (with_leaves(structure, shapes),), inputs)
    try:
        whole = set(layers_reached(flat, (keras.layers.Embedding,)))
    except Exception:  # a model for integers may raise any error on floats
        whole = {name for name, shape in shapes.items() if len(shape) <= 2}
    met = (_Met(shape, "int32" if name in whole else float_dtype) for name, shape in shapes.items())
    return [with_leaves(structure, met)]


def _with_shape_leaves(structure: Any) -> Any:
    """Returns the structure that Keras has recorded, with a `_Met` in place of each shape."""
    if isinstance(structure, Mapping):
        return {key: _with_shape_leaves(value) for key, value in structure.items()}
    if all(dim is None or isinstance(dim, int) for dim in structure):
        return _Met(tuple(structure))
    return type(structure)(_with_shape_leaves(value) for value in structure)
