"""What a caller gives with a signature: names, ranges and examples, and the rules that they must keep."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from keras_pe.export.model.watch.nesting import FlatModel
from keras_pe.export.results import Array

Value = TypeVar("Value")


def renamed(given: Mapping[str, Value], portable: Mapping[str, str]) -> dict[str, Value]:
    """Returns what was given by names of inputs, the model's own or those of artifacts, by those of artifacts."""
    return {name if name in portable.values() else portable.get(name, name): value for name, value in given.items()}


def by_name(argument: str, values: Any) -> Mapping[str, Any]:
    """Returns what was given by name; nothing where None was.

    Raises:
        TypeError: If it is no mapping from texts.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(f"`{argument}` must be a mapping from names. Received: {argument}={values!r:.80}")
    return values


def checked_ranges(ranges: Mapping[str, tuple[float, float]], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns the ranges.

    Raises:
        ValueError: If one is of no input, is empty, or is so wide that nothing can be drawn from it.
    """
    if unknown := ranges.keys() - set(names):
        raise ValueError(f"`ranges` must be of inputs: {', '.join(names)}. Received: {', '.join(sorted(unknown))}.")
    for name, ends in ranges.items():
        try:
            low, high = ends
            float(high) - float(low)
        except (TypeError, ValueError):
            raise TypeError(f"`ranges` must be pairs of numbers. Received: {name!r} with {ends!r:.80}") from None
        if not low < high:
            raise ValueError(f"`ranges` must hold a value. Received: {name!r} from {low!r} to less than {high!r}.")
        if not np.isfinite(float(high) - float(low)):
            raise ValueError(f"`ranges` must have finite ends. Received: {name!r} from {low!r} to {high!r}.")
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
