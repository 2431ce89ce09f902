"""The layers of a model in a file for a device: the operators of each layer, and the device rules that they break."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keras_pe.export.artifacts.json_records import read_record

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
    """Returns the layers that the metadata of an artifact records; nothing without a target.

    Raises:
        ValueError: If the record is damaged.
    """
    return read_record(metadata.get(TARGET_KEY, '{"layers": []}'), _layers, "layers of a target")


def read_target(metadata: Mapping[str, str]) -> str | None:
    """Returns the target that the metadata of an artifact records; None without a target.

    Raises:
        ValueError: If the record is damaged.
    """
    if TARGET_KEY not in metadata:
        return None
    return read_record(metadata[TARGET_KEY], lambda content: str(content["target"]), "a target")


def _layers(content: Any) -> tuple[TargetLayer, ...]:
    return tuple(
        TargetLayer(
            str(layer["layer"]),
            {str(operator): int(count) for operator, count in layer["operators"].items()},
            {str(operator): str(reason) for operator, reason in layer["reasons"].items()},
        )
        for layer in content["layers"]
    )
