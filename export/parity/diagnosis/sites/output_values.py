"""Edits that follow from the values of an output alone."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, Site, output_called
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.relations import Change, distance
from keras_pe.export.parity.diagnosis.relations.detection import (
    OF_OUTPUTS,
    UNEXPLAINED,
    contradicts,
    find_change,
    holds,
)
from keras_pe.export.parity.diagnosis.sites.call_arrays import input_places
from keras_pe.export.results import Array, Cause

_OF_HALF = 2.0**-6  # largest error of a few roundings to 16 bits, relative to the largest value


def changed_values(fault: LayerFault) -> Edits:
    """Yields the change of an output, or of a summand of it, if the values show the change."""
    if fault.actual is None:
        return
    yield from _value_edits(fault, "other values", _output)
    yield output_called("the right values").scaling_edit(Cause.SCALED_VALUES)
    for number, array, place in input_places(fault):
        if array.shape == fault.expected.shape and array.dtype.kind == "f":
            yield from _value_edits(fault, f"another term added to {place.name}", partial(_summands, number))


def _output(fault: LayerFault) -> tuple[Array, Array]:
    assert fault.actual is not None
    return fault.expected, fault.actual


def _summands(number: int, fault: LayerFault) -> tuple[Array, Array]:
    """Returns the expected and the actual summand of an input.

    A summand that is equal for the whole batch, such as a table of positions, is returned once.
    """
    added = [array.astype(np.float64) - fault.call.inputs[number] for array in _output(fault)]
    is_repeated = all(np.ptp(array, axis=0).max(initial=0.0) <= fault.tolerance for array in added)
    expected, actual = (array[:1] for array in added) if is_repeated else added
    return expected, actual


def _value_edits(first: LayerFault, description: str, seen: Callable[[LayerFault], tuple[Array, Array]]) -> Edits:
    """Yields the edit for a change of some values in one case, which must recur in other cases.

    Args:
        first: The case.
        description: The beginning of the sentence, which names the artifact's values.
        seen: Returns the compared values, expected and actual.
    """

    def find(fault: LayerFault) -> Change | None:
        return find_change(*seen(fault), fault.tolerance, OF_OUTPUTS)

    change = find(first)
    if change is None or change.cause in UNEXPLAINED:
        return

    def same(fault: LayerFault) -> Array | None:
        if fault.actual is None:
            return None
        if distance(fault.actual, fault.expected) <= fault.tolerance:
            return None if contradicts(change, seen(fault)[0], fault.tolerance) else fault.actual
        other = find(fault)
        # Fewer values may not suffice to show the change.
        is_fewer = seen(fault)[0].size < seen(first)[0].size
        is_silent = is_fewer and (other is None or other.cause in UNEXPLAINED)
        agrees = is_silent or change.agrees(other) or holds(change, *seen(fault), fault.tolerance, OF_OUTPUTS)
        return fault.actual if agrees else None

    text = f"{description}: {str(change)[:1].lower()}{str(change)[1:-1]}"
    yield Edit(change.cause, text, same, is_output=True, parameters=change.values)


def rounded_inside(dtypes: Sequence[str]) -> Site:
    """Returns the site of an artifact that computes in short floats."""

    def in_short_floats(fault: LayerFault) -> Edits:
        """Yields the artifact's output if it is as near as short floats allow."""
        description = f"tensors of {' and '.join(dtypes)}, and is off by at most their rounding"
        yield Edit(Cause.HALF_PRECISION, description, _near, is_output=True)

    return in_short_floats


def _near(fault: LayerFault) -> Array | None:
    if fault.actual is None:
        return None
    error, largest = distance(fault.actual, fault.expected), np.abs(fault.expected.astype(np.float64)).max(initial=0.0)
    return fault.actual if error <= max(_OF_HALF * largest, fault.tolerance) else None
