"""The findings inside a layer's code, and those that say where a fault is without its change."""

from dataclasses import dataclass, replace

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
    numbers = candidates.enclosing()
    if len(numbers) > 1:
        return [_between(candidates.origin(numbers[0]), candidates.origin(numbers[1]), layer)]
    return [_unknown(candidates, number, layer) for number in numbers]


def unexplained_finding(candidates: Candidates, number: int, layer: str) -> Finding:
    """Returns the finding of a located operation, and of those that its operands follow from without a tensor."""
    unseen = candidates.unseen_before(number)
    if unseen:
        return _between(candidates.origin(min(unseen)), candidates.origin(number), layer)
    return _unknown(candidates, number, layer)


def _between(first: CodePlace, last: CodePlace, layer: str) -> Finding:
    description = f"The fault is between {first} and {last}. The artifact has no tensor between them."
    return Finding(Cause.UNKNOWN, description, layer, file=first.file)


def _unknown(candidates: Candidates, number: int, layer: str) -> Finding:
    place = candidates.origin(number)
    description = f"At {place} the operands agree with the artifact's tensors, but the result does not."
    finding = Finding(Cause.UNKNOWN, description, layer, file=place.file)
    is_certain = number in candidates.suspects.located and candidates.is_in_line(number)
    return replace(finding, **place.fields) if is_certain else finding
