"""The arrays of the worst failure, and the division of a sequence into calls that pass on a state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from keras_pe.display import Shown

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Chunks:
    """The calls of one sequence, each with the state that the last call returned.

    Attributes:
        sizes: The length of each chunk.
        axes: The axis of each input that is cut, by name. Without any, each call takes the whole inputs.
        carried: The output with the next value of each state, by the state's input.
        growing: The axis of each input of which a call takes the part up to its own end, such as the mask of a cache.
        padding: The input that is 0 at padding, where no output is compared; None if all values are compared.
    """

    sizes: tuple[int, ...]
    axes: Mapping[str, int] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    growing: Mapping[str, int] = field(default_factory=dict)
    padding: str | None = None


@dataclass(frozen=True)
class LayerRecording:
    """The arrays of a layer at fault, in the case in which it was located.

    Attributes:
        layer: The layer's path.
        case: The inputs of the model in that case.
        inputs: The inputs of the layer, in order.
        expected: The reference's output, with its axes in the order of the artifact's tensor if there is one.
        tolerance: The tolerance on the difference; zero if no tensor shows the layer.
        tensor: The artifact's tensor of the output; None if the artifact shows none.
        actual: The values of that tensor; None without a tensor.
    """

    layer: str
    case: Mapping[str, Array]
    inputs: tuple[Array, ...]
    expected: Array
    tolerance: float = 0.0
    tensor: str | None = None
    actual: Array | None = None


@dataclass(frozen=True, repr=False)
class Recording(Shown):
    """The arrays of a failing runtime's worst case. They are not part of the report as JSON.

    Attributes:
        case: The case's name.
        inputs: Inputs of the run.
        expected: The reference's outputs, empty where it refused.
        actual: The runtime's outputs, empty where it gave none.
        truth: The float64 rebuild's outputs, empty where there is none.
        before: Earlier inputs of the runtime, in this order: its state may depend on them.
        layer: The first layer at fault; None if none was located.
        chunks: The calls of a sequence, whose whole inputs and first states are `inputs`. The outputs are those of all
            calls, joined. None for a single call.
    """

    case: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    actual: Mapping[str, Array]
    truth: Mapping[str, Array] = field(default_factory=dict)
    before: tuple[Mapping[str, Array], ...] = ()
    layer: LayerRecording | None = None
    chunks: Chunks | None = None

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        arrays = {"inputs": self.inputs, "expected": self.expected, "actual": self.actual}
        return {"case": repr(self.case)} | {name: ", ".join(each) or "none" for name, each in arrays.items()}
