"""The interface of a quantized file that runs in floats, and rounds any choice of its tensors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from keras_pe.export.runtimes.runtime import Array, Arrays


class NothingRoundedError(ValueError):
    """A file rounds no computed tensor to integers, so only its weights may be integers."""

    def __init__(self) -> None:
        super().__init__("rounds no computed tensor to integers.")


@dataclass(frozen=True)
class RoundedTensor:
    """A computed tensor that the file rounds to integers.

    Attributes:
        key: The name of its integers in the file.
        name: The name of the tensor, without the suffixes of quantizers.
        layer: The names that lead to the layer that computes it, joined by "/"; empty for an input of the file.
        source: The tensor of floats that is rounded.
        operator: ONNX's type of the operator that computes it; empty for an input of the file.
        node: The name of the node that computes it; empty for an input of the file.
        given: The tensors that this node takes.
        readers: The operators that take it, each with the place among the inputs.
        dtype: The type of the integers.
        scale: The scale of each index of the axis, or one; None if the file computes it at each call.
        limits: The least and the greatest number that the integers stand for, in the shape of the scale; None without.
        axis: The axis of several scales.
    """

    key: str
    name: str
    layer: str
    source: str
    operator: str
    node: str
    given: tuple[str, ...]
    readers: tuple[tuple[str, int], ...]
    dtype: str
    scale: Array | None
    limits: tuple[Array, Array] | None
    axis: int

    @property
    def summands(self) -> tuple[str, ...]:
        """The tensors that an addition or a concatenation takes."""
        return self.given if self.operator in ("Add", "Concat", "Sub", "Sum") else ()


class FloatTwin(Protocol):
    """A quantized file that runs in floats, and rounds the tensors that a caller chooses.

    Constants keep the numbers that their integers stand for. A range that begins at 0 may replace an activation, so
    that `run` takes the limits to apply to such tensors.

    Attributes:
        tensors: The rounded tensors, in the order of computation.
    """

    tensors: tuple[RoundedTensor, ...]

    def run(
        self,
        inputs: Mapping[str, Array],
        rounded: Collection[str] = (),
        cut: Mapping[str, tuple[float, float]] | None = None,
        *,
        with_tensors: bool = False,
    ) -> tuple[Arrays, Arrays]:
        """Returns the outputs, and the floats of each tensor before rounding by key, with the summands by name.

        Args:
            inputs: The inputs of the file.
            rounded: The keys of the tensors that are rounded.
            cut: The limits of activations that ranges replace, by key.
            with_tensors: Whether to return the tensors as well.
        """
