"""A report as JSON, and the JSON Schema that it keeps."""

import importlib.resources
import json
from typing import Any

from keras_pe.export.parity.results import ParityReport


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of what `render` returns."""
    text = importlib.resources.files(__package__).joinpath("report.schema.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def render(report: ParityReport) -> str:
    """Returns the whole report, every comparison included; NaN and infinities are texts."""
    return json.dumps({"$schema": schema()["$id"], **report.to_dict()}, indent=2, allow_nan=False) + "\n"
