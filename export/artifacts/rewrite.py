"""The record of operations that an exporter replaced by one operator, or could not replace."""

from dataclasses import dataclass


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
