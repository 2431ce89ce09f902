"""A report as JSON, and the JSON Schema that it keeps."""

import dataclasses
import importlib.resources
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.results import ParityReport

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; a new field does not raise it."""


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of what `render` returns."""
    text = importlib.resources.files(__package__).joinpath("report.schema.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def render(report: ParityReport) -> str:
    """Returns the whole report, every comparison included; NaN and infinities are texts."""
    return json.dumps({"$schema": schema()["$id"], **report.to_dict()}, indent=2, allow_nan=False) + "\n"


def to_plain(report: ParityReport) -> dict[str, Any]:
    """Returns a report as JSON's plain values."""
    plain: dict[str, Any] = _plain(report)
    return {"schema_version": SCHEMA_VERSION, "passed": report.passed, "compared": report.compared, **plain}


def _plain(value: Any) -> Any:
    """Returns records, mappings, sequences, paths and NumPy scalars as JSON's plain values."""
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if f.name != "recording"]
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
