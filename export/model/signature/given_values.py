"""Values that a user gave for the inputs of a model: checked against what the model takes."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from keras_pe.export.model.watch.known_values import Array
from keras_pe.export.model.watch.nesting import FlatModel

Value = TypeVar("Value")


def renamed(given: Mapping[str, Value], portable: Mapping[str, str]) -> dict[str, Value]:
    """Returns what was given by names of inputs, the model's own or those of artifacts, by those of artifacts."""
    return {name if name in portable.values() else portable.get(name, name): value for name, value in given.items()}


def checked_ranges(ranges: Mapping[str, tuple[float, float]], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns the ranges.

    Raises:
        ValueError: If one is of no input, or is empty.
    """
    if unknown := ranges.keys() - set(names):
        raise ValueError(f"`ranges` must be of inputs: {', '.join(names)}. Received: {', '.join(sorted(unknown))}.")
    for name, (low, high) in ranges.items():
        if not low < high:
            raise ValueError(f"`ranges` must hold a value. Received: {name!r} from {low!r} to less than {high!r}.")
    return dict(ranges)


def checked_examples(examples: Sequence[Mapping[str, Array]], model: FlatModel) -> tuple[Mapping[str, Array], ...]:
    """Returns the examples.

    Raises:
        ValueError: If one has not an array for each input, of its dimensions.
    """
    for example in examples:
        if set(example) != set(model.names):
            raise ValueError(
                f"`inputs` must have an array for each of {', '.join(sorted(model.names))}. "
                f"Received: {', '.join(sorted(example))}."
            )
        for name, shape in zip(model.names, model.shapes, strict=True):
            found = np.shape(example[name])
            fits = len(found) == len(shape) and all(
                not isinstance(dim, int) or dim == size for dim, size in zip(shape, found, strict=True)
            )
            if not fits:
                raise ValueError(
                    f"`inputs` must be of the shapes of the model: {name!r} is {shape}. Received: {found}."
                )
    return tuple(examples)
