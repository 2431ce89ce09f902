"""The findings inside a layer's code, and those that say where a fault is without its change."""

from dataclasses import dataclass

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.parity.diagnosis.edit_candidates import Candidates
from keras_pe.export.results import Cause, Finding


@dataclass(frozen=True)
class Inside:
    """The findings inside a layer.

    Attributes:
        findings: The operations at fault; empty if the layer has no user code, or the operations show no fault.
        is_exact: Whether each cause gives the artifact's numbers.
        is_of_all: Whether the causes explain all wrong calls of the layer.
    """

    findings: tuple[Finding, ...] = ()
    is_exact: bool = False
    is_of_all: bool = True


def enclosing_findings(candidates: Candidates, layer: str) -> list[Finding]:
    """Returns the finding of the operation that is certainly at fault, or of the two that enclose the fault."""
    places = candidates.enclosing()
    return [_between(places[0], places[1], layer)] if len(places) > 1 else [_unknown(each, layer) for each in places]


def unexplained_finding(candidates: Candidates, number: int, layer: str) -> Finding:
    """Returns the finding of a located operation, and of those that its operands follow from without a tensor."""
    place, unseen = candidates.origin(number), candidates.unseen_before(number)
    return _between(candidates.origin(min(unseen)), place, layer) if unseen else _unknown(place, layer)


def _between(first: CodePlace, last: CodePlace, layer: str) -> Finding:
    description = f"The fault is between {first} and {last}. The artifact has no tensor between them."
    return Finding(Cause.UNKNOWN, description, layer, file=first.file)


def _unknown(place: CodePlace, layer: str) -> Finding:
    description = f"At {place} the operands agree with the artifact's tensors, but the result does not."
    return Finding(Cause.UNKNOWN, description, layer, file=place.file)
