"""The caller's arguments for a signature: names, ranges and examples, and the checks of their rules."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.model.watch.nested_arguments import FlatModel, shapes_fit
from keras_pe.export.results import Array

Value = TypeVar("Value")


def rename_inputs(given: Mapping[str, Value], portable: Mapping[str, str]) -> dict[str, Value]:
    """Returns the values by the artifact's names of inputs.

    Args:
        given: The values by names of inputs, the model's own or the artifact's.
        portable: The artifact's name for each of the model's own names.
    """
    return {name if name in portable.values() else portable.get(name, name): value for name, value in given.items()}


def by_name(argument: str, values: Any) -> Mapping[str, Any]:
    """Returns an argument that is a mapping from names; an empty mapping for None.

    Raises:
        TypeError: If the argument is not a mapping from texts.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise ArgTypeError(argument, f"must be a mapping from names. Received: {argument}={values!r:.80}.")
    return values


def checked_ranges(ranges: Mapping[str, tuple[float, float]], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns the ranges after checking them.

    Raises:
        ValueError: If a range names no input, is empty, or is not finite.
        TypeError: If a range is not a pair of numbers.
    """
    if unknown := ranges.keys() - set(names):
        raise ArgValueError("ranges", f"must be of inputs: {', '.join(names)}. Received: {', '.join(sorted(unknown))}.")
    for name, ends in ranges.items():
        try:
            low, high = ends
            float(high) - float(low)
        except (TypeError, ValueError):
            raise ArgTypeError("ranges", f"must be pairs of numbers. Received: {name!r} with {ends!r:.80}") from None
        if not low < high:
            raise ArgValueError("ranges", f"must hold a value. Received: {name!r} from {low!r} to less than {high!r}.")
        if not np.isfinite(float(high) - float(low)):
            raise ArgValueError("ranges", f"must have finite ends. Received: {name!r} from {low!r} to {high!r}.")
    return dict(ranges)


def checked_examples(examples: Sequence[Mapping[str, Array]], model: FlatModel) -> tuple[Mapping[str, Array], ...]:
    """Returns the examples after checking them.

    Raises:
        ValueError: If an example lacks the array of an input, or an array has the wrong shape.
    """
    for example in examples:
        if set(example) != set(model.names):
            raise ArgValueError(
                "inputs",
                f"must have an array for each of {', '.join(sorted(model.names))}. "
                f"Received: {', '.join(sorted(example))}.",
            )
        for name, shape in zip(model.names, model.shapes, strict=True):
            found = np.shape(example[name])
            if not shapes_fit(shape, found):
                raise ArgValueError(
                    "inputs", f"must be of the shapes of the model: {name!r} is {shape}. Received: {found}."
                )
    return tuple(examples)
