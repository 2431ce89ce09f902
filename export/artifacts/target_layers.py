"""The layers of a model in a file for a device: the operators of each layer, and the device rules that they break."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

TARGET_KEY = "keras_pe.target"
"""The key of the target and its layers in the metadata of an artifact: JSON."""


@dataclass(frozen=True)
class TargetLayer:
    """The operators of one layer for a target.

    Attributes:
        layer: The path of the layer; empty for operators between layers.
        operators: The number of operators of each type.
        reasons: The rule that the target breaks with, by the type of the operator; empty if the target takes the layer.
    """

    layer: str
    operators: Mapping[str, int]
    reasons: Mapping[str, str]


def target_to_json(target: str, layers: Sequence[TargetLayer]) -> str:
    """Returns the target and its layers as text."""
    return json.dumps({"target": target, "layers": [asdict(layer) for layer in layers]})


def read_target_layers(metadata: Mapping[str, str]) -> tuple[TargetLayer, ...]:
    """Returns the layers that the metadata of an artifact records; nothing without a target."""
    found = json.loads(metadata.get(TARGET_KEY, '{"layers": []}'))
    return tuple(TargetLayer(**layer) for layer in found["layers"])
