"""What a file is made of, by layer: the record that `Artifact.contents` returns."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

UNFUSED_KEY = "keras_pe.unfused"
"""Where a file says what its exporter could not write as one operator: JSON, reasons by operator by layer."""

Term = tuple[int, tuple[str, ...]]
"""A factor, and the dynamic dimensions that it is multiplied by, each as often as it is."""


@dataclass(frozen=True)
class LayerContents:
    """What a file holds of one layer, without the layers inside it.

    Attributes:
        layer: The names that lead to the layer, joined by "/"; empty for what stands between layers.
        operators: How often each operator stands there, those in branches and loops once.
        parameters: The numbers stored for it: weights, tables and other constants. What several layers read counts for
            the first. Integers of 32 and 64 bits, which hold shapes and places, are none.
        nbytes: Bytes of all that is stored for it, these integers included.
        multiplications: Those of its products of matrices, convolutions and recurrences, as a sum:
            `((32, ("batch",)),)` is 32 for each row of a batch. Elementwise ones are left out. None where their number
            does not follow from the sizes of the inputs, as in a loop.
        unfused: What ONNX has one operator for and stands there in several: why, by the name of the operator.
    """

    layer: str
    operators: Mapping[str, int]
    parameters: int
    nbytes: int
    multiplications: tuple[Term, ...] | None
    unfused: Mapping[str, str]


def added(terms: Iterable[Term | None]) -> tuple[Term, ...] | None:
    """Returns the sum, its largest power first; None if one of the terms is unknown."""
    total: Counter[tuple[str, ...]] = Counter()
    for term in terms:
        if term is None:
            return None
        total[term[1]] += term[0]
    return tuple((total[names], names) for names in sorted(total, key=lambda each: (-len(each), each)) if total[names])
