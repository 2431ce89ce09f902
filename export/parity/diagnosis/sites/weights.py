"""A weight of the layer with other values: where it is folded into others, only what the layer does tells of it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.layer_call import as_array, with_weight
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.relations.proposals import (
    Proposal,
    backwards,
    doubled,
    exchanged_axes,
    neutral,
    powers,
)
from keras_pe.export.results import Array, Cause


def other_weights(fault: LayerFault) -> Edits:
    """Yields the layer with each of its weights left out, moved, scaled or raised to a power."""
    for variable in getattr(fault.call.layer, "variables", ()):
        if "float" not in str(variable.dtype):
            continue
        values = as_array(variable.value).astype(np.float64)
        for proposal in _proposals(fault, variable, values):
            said = f"with {proposal.template.format(repr(variable.path))}"
            yield Edit(proposal.cause, said, partial(with_weight, fault, variable, proposal.array))
        if variable.path not in fault.sound_weights:  # else what looks so is done to what it is multiplied by
            yield _scaled(fault, variable, values)


def _proposals(fault: LayerFault, variable: Any, values: Array) -> Iterator[Proposal]:
    yield from neutral(values)
    if variable.path.endswith(("bias", "beta")):
        yield from doubled(values)
    if variable.path not in fault.sound_weights:
        yield from exchanged_axes(values)
        if values.ndim > 1:
            yield from backwards(values)
    yield from powers(values)


def _scaled(fault: LayerFault, variable: Any, values: Array) -> NumericEdit:
    def edit(numbers: Any) -> Edit:
        said = f"with {variable.path!r} times {numbers['factor']:.6g}"
        return Edit(Cause.SCALED_VALUES, said, partial(with_weight, fault, variable, numbers["factor"] * values))

    return NumericEdit({"factor": 1.0}, lambda factor: with_weight(fault, variable, factor * values), edit)
