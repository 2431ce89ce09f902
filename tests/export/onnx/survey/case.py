"""One row of the survey: a callable, its inputs and its dynamic dimensions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops


@dataclass(frozen=True)
class Case:
    """A callable of tensors and its inputs.

    Attributes:
        make: Returns the callable: a function or a layer of one tensor per input.
        inputs: The inputs of the comparison.
        is_static: True to export with the inputs' own sizes, where the callable needs them in Keras; else the first
            dimension of every input is dynamic.
    """

    make: Callable[[], Callable[..., Any]]
    inputs: tuple[np.ndarray, ...]
    is_static: bool = False


def op(function: Callable[..., Any], *inputs: np.ndarray, static: bool = False, **kwargs: Any) -> Case:
    """Returns the row of a function of the inputs, with fixed keyword arguments."""
    return Case(lambda: lambda *tensors: function(*tensors, **kwargs), inputs, static)


def each(names: str, *inputs: np.ndarray, suffix: str = "", **kwargs: Any) -> dict[str, Case]:
    """Returns the rows of functions of `keras.ops` that take the same. A suffix is a second word of their names."""
    return {f"{name} {suffix}".strip(): op(getattr(ops, name), *inputs, **kwargs) for name in names.split()}
