"""A plan: the options with which a quantizer writes one file, as JSON that needs no other tool."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Plan:
    """The call of a quantizer.

    Attributes:
        quantizer: The import path of the quantizer.
        options: Its keyword arguments, as JSON values. The names of nodes to leave in float are among them.
        version: The package of the quantizer with its version. Another version may write other bytes.
        source: The SHA-256 of the float file.
        result: The SHA-256 of the quantized file.
        calibration_cache: The content of the calibration cache; None for a quantizer that reads no rows.
    """

    quantizer: str
    options: Mapping[str, Any]
    version: str
    source: str
    result: str
    calibration_cache: Mapping[str, Any] | None

    def to_json(self) -> str:
        """Returns the plan as a text."""
        return json.dumps(asdict(self), indent=1) + "\n"


def plan_path(filepath: Path) -> Path:
    """Returns the path of the plan of a quantized file."""
    return filepath.with_name(f"{filepath.name}.plan.json")
