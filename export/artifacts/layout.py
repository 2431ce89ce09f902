"""How a file stores a weight that an operator wants otherwise than Keras has it: other axes, or unsigned numbers."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LAYOUTS_KEY = "keras_pe.layouts"
"""Where a file says how it stores weights that it does not store as Keras does: JSON, a layout by the weight's name."""

Step = tuple[str, tuple[int, ...]]
"""The name of a function of NumPy's, "reshape" or "transpose", and the shape or the axes that it is given.

"unsigned" and nothing: an int8 as the uint8 that is 128 more.
"""

_SIGN = np.uint8(128)


@dataclass(frozen=True)
class Layout:
    """What is done to a Keras weight before it is stored.

    Attributes:
        keras: The shape of the Keras variable.
        steps: In the order in which they are done.
    """

    keras: tuple[int, ...]
    steps: tuple[Step, ...] = ()

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes before the first step, between two, and after the last."""
        return list(itertools.accumulate(self.steps, _shape_after, initial=self.keras))

    @property
    def is_unsigned(self) -> bool:
        """Whether the weight is an int8 that the file stores as uint8."""
        return any(function == "unsigned" for function, _ in self.steps)

    def then(self, function: str, argument: Sequence[int]) -> "Layout":
        """Returns the layout with one step more."""
        return Layout(self.keras, (*self.steps, (function, tuple(int(number) for number in argument))))

    def store(self, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns a Keras weight as the file stores it."""
        for function, argument in self.steps:
            weight = (
                weight.view(np.uint8) ^ _SIGN if function == "unsigned" else getattr(np, function)(weight, argument)
            )
        return np.ascontiguousarray(weight)

    def restore(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns what a file stores as Keras has it, without a copy where that can be.

        Raises:
            ValueError: If it has another size than the weight.
        """
        shapes = self.shapes
        array = stored.reshape(shapes[-1])
        for (function, argument), before in zip(reversed(self.steps), reversed(shapes[:-1]), strict=True):
            if function == "unsigned":
                array = (array ^ _SIGN).view(np.int8)
            else:
                array = array.transpose(np.argsort(argument)) if function == "transpose" else array.reshape(before)
        return array


def layouts_to_json(layouts: Mapping[str, Layout]) -> str:
    """Returns the metadata of a file, the same for equal layouts."""
    values = {name: {"keras": layout.keras, "steps": layout.steps} for name, layout in layouts.items()}
    return json.dumps(values, sort_keys=True)


def layouts_from_json(text: str) -> dict[str, Layout]:
    """Reads what `layouts_to_json` returned; nothing where another program wrote something else under its key."""
    try:
        return {
            name: Layout(
                tuple(value["keras"]), tuple((str(function), tuple(argument)) for function, argument in value["steps"])
            )
            for name, value in json.loads(text).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _shape_after(shape: tuple[int, ...], step: Step) -> tuple[int, ...]:
    function, argument = step
    if function == "unsigned":
        return shape
    return tuple(shape[axis] for axis in argument) if function == "transpose" else argument
