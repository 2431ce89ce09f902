"""The record of operations that an exporter replaced by one operator, or could not replace."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from keras_pe.export.artifacts.json_records import read_record

UNFUSED_KEY = "keras_pe.unfused"
"""The key of the operators that the exporter decomposed: JSON, reasons by operator by layer."""


@dataclass(frozen=True)
class Rewrite:
    """Operations of a layer that one operator of the format replaces, or that stay although the format has one.

    Attributes:
        layer: The path of the layer; empty for operations between layers.
        operator: The operator of the format.
        reason: The reason why the operations stay; empty if the operator replaces them.
        file: The file of the user's code that computes the last operation; None outside of a user's code.
        line: The line in that file; None outside of a user's code.
    """

    layer: str
    operator: str
    reason: str
    file: str | None
    line: int | None


def unfused_texts(rewrites: Iterable[Rewrite]) -> dict[str, str]:
    """Returns the metadata with the reasons why operations stay; empty if none stay."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for each in rewrites:
        if each.reason:
            reasons.setdefault(each.layer, {}).setdefault(each.operator, []).append(each.reason)
    texts = {
        layer: {operator: "; ".join(dict.fromkeys(all)) for operator, all in found.items()}
        for layer, found in reasons.items()
    }
    return {UNFUSED_KEY: json.dumps(texts, sort_keys=True)} if texts else {}


def read_unfused(metadata: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the reasons by operator by layer that `unfused_texts` wrote.

    Raises:
        ValueError: If the record is damaged.
    """
    return read_record(metadata.get(UNFUSED_KEY, "{}"), _parse_unfused, "reasons for decomposed operators")


def _parse_unfused(content: Any) -> dict[str, dict[str, str]]:
    return {
        str(layer): {str(operator): str(reason) for operator, reason in found.items()}
        for layer, found in content.items()
    }
