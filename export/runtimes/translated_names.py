"""The names that an artifact has for what the model calls otherwise."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from keras_pe.export.runtimes.runtime import Array, Arrays


def in_order(names: Iterable[str]) -> list[str]:
    """Returns names as they are counted, `output_2` before `output_10`: a signature of TensorFlow's keeps no order."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


@dataclass(frozen=True)
class Names:
    """The artifact's name by the model's, of the inputs and outputs of which the two differ.

    Attributes:
        inputs: Of the inputs.
        outputs: Of the outputs.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    def given(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns inputs under the artifact's names."""
        return {self.inputs.get(name, name): array for name, array in inputs.items()}

    def replaced(self, tensors: Mapping[str, Array]) -> Arrays:
        """Returns tensors of the artifact, of which some may be outputs, under its own names."""
        return {self.outputs.get(name, name): array for name, array in tensors.items()}

    def returned(self, tensors: Mapping[str, Array]) -> Arrays:
        """Returns what the artifact gave under the model's names; an inner tensor of such a name makes room."""
        own = {theirs: name for name, theirs in self.outputs.items()}
        inner = {name: array for name, array in tensors.items() if name in own or name not in self.outputs}
        return {own.get(name, name): array for name, array in inner.items()}
