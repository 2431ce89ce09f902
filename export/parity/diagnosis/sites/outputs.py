"""What the values of an output say by themselves: a relation to what Keras returns, or rounding to a short float."""

from collections.abc import Sequence

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, Site, factor
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.probe import distance
from keras_pe.export.parity.diagnosis.relations.change import Change
from keras_pe.export.parity.diagnosis.relations.detection import OF_OUTPUTS, UNEXPLAINED, find_change, holds
from keras_pe.export.results import Array, Cause

_OF_HALF = 2.0**-6  # of the largest value: what a few roundings to 16 bits leave


def told_values(fault: LayerFault) -> Edits:
    """Yields what has become of an output, where that shows in its values."""
    if fault.actual is None:
        return
    change = find_change(fault.expected, fault.actual, fault.tolerance, OF_OUTPUTS)
    if change is not None and change.cause not in UNEXPLAINED:
        yield _same_change(change, fault)
    yield factor(Cause.SCALED_VALUES, "what it should", lambda fault, by: by * fault.expected, is_output=True)


def _same_change(change: Change, first: LayerFault) -> Edit:
    """Returns the edit that is a change of the values, seen in one case, wherever it is seen again."""

    def same(fault: LayerFault) -> Array | None:
        if fault.actual is None or distance(fault.actual, fault.expected) <= fault.tolerance:
            return fault.actual
        given = fault.expected, fault.actual, fault.tolerance, OF_OUTPUTS
        other = find_change(*given)
        # Fewer values may not be enough to show it.
        is_silent = fault.actual.size < first.expected.size and (other is None or other.cause in UNEXPLAINED)
        return fault.actual if is_silent or change.agrees(other) or holds(change, *given) else None

    is_start = change.cause is Cause.SHIFTED_ROWS and _is_position(first)
    cause = Cause.START_INDEX_OFF if is_start else change.cause
    return Edit(cause, f"other values: {str(change)[:1].lower()}{str(change)[1:-1]}", same, is_output=True)


def rounded_inside(dtypes: Sequence[str]) -> Site:
    """Returns the site of an artifact that computes in short floats."""

    def in_short_floats(fault: LayerFault) -> Edits:
        """Yields what it should hold, as near as short floats are."""
        said = f"tensors of {' and '.join(dtypes)}, and is off by no more than their rounding"
        yield Edit(Cause.HALF_PRECISION, said, _near, is_output=True)

    return in_short_floats


def _near(fault: LayerFault) -> Array | None:
    if fault.actual is None:
        return None
    error, largest = distance(fault.actual, fault.expected), np.abs(fault.expected.astype(np.float64)).max(initial=0.0)
    return fault.actual if error <= max(_OF_HALF * largest, fault.tolerance) else None


def _is_position(fault: LayerFault) -> bool:
    from keras_pe.layers.base import PositionLayer

    return isinstance(fault.call.layer, PositionLayer)
