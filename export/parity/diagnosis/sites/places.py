"""An array of a call as a place where something may have been changed: whatever was proposed is put there."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit, factor
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.relations.proposals import Proposal
from keras_pe.export.results import Array, Cause


@dataclass(frozen=True)
class Place:
    """An array of a call.

    Attributes:
        how: How the layer has it, as in "with" or "given".
        name: What it is called.
        get: Returns what it should be.
        put: Returns what the layer gives with another one there.
    """

    how: str
    name: str
    get: Callable[[LayerFault], Array]
    put: Callable[[LayerFault, Array], Array]

    def edits(self, proposals: Iterable[Proposal]) -> Edits:
        """Yields the edit of each proposal."""
        for proposal in proposals:
            said = f"{self.how} {proposal.template.format(self.name)}"
            yield Edit(proposal.cause, said, partial(self._changed, proposal))

    def _changed(self, proposal: Proposal, fault: LayerFault) -> Array:
        return self.put(fault, proposal.change(self.get(fault)))

    def scaled(self, cause: Cause) -> NumericEdit:
        """Returns the edit that is the array times a number."""
        return factor(cause, f"{self.how} {self.name}", lambda fault, by: self.put(fault, by * self.get(fault)))
