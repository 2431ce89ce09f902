"""A plan: the options with which a quantizer of ONNX Runtime writes one file, as JSON that needs no other tool."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from keras_pe.export.quantization.quantizers import QUANTIZERS


@dataclass(frozen=True)
class Plan:
    """The call of a quantizer.

    Attributes:
        quantizer: The import path of the quantizer.
        options: Its keyword arguments, as JSON values. The names of nodes to leave in float are among them.
        onnxruntime: The version of ONNX Runtime. Another version may write other bytes.
        source: The SHA-256 of the float file.
        result: The SHA-256 of the quantized file.
        calibration_cache: The content of the calibration cache of `quantize_static`; None for other quantizers.
    """

    quantizer: str
    options: Mapping[str, Any]
    onnxruntime: str
    source: str
    result: str
    calibration_cache: Mapping[str, Any] | None

    def to_json(self) -> str:
        """Returns the plan as a text."""
        return json.dumps(asdict(self), indent=1) + "\n"


def plan_path(filepath: Path) -> Path:
    """Returns the path of the plan of a quantized file."""
    return filepath.with_name(f"{filepath.name}.plan.json")


def excluding(method: str, nodes: Sequence[str]) -> dict[str, Any]:
    """Returns the options of a quantizer that leaves some nodes in float."""
    quantizer = QUANTIZERS[method]
    return {**quantizer.options, quantizer.excluded: sorted(nodes)}
