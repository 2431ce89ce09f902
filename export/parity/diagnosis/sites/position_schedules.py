"""A position encoding with another codebase's schedule, or another start: both are read off the artifact's numbers."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import with_attributes, with_inputs
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause

_FEWEST_ROWS = 4  # that tell a schedule
_USUAL = {"min_timescale": 1.0, "max_timescale": 1.0e4, "endpoint": True}


def other_schedules(fault: LayerFault) -> Edits:
    """Yields this package's layer as other codebases would compute it, or from where its rows begin."""
    import keras_pe

    layer = fault.call.layer
    if not isinstance(layer, keras_pe.SinusoidalPositionEncoding) or fault.actual is None or fault.actual.ndim != 3:
        return
    table = _signal(fault)
    if len(table) < _FEWEST_ROWS or not table.any():
        return
    is_given = len(fault.call.inputs) > 1
    for match in keras_pe.conventions.identify(table):
        names = " or ".join(match.conventions or match.timescales_of) or "timescales of its own"
        if is_given and np.allclose(match.timescales, layer.get_config()["timescales"] or match.timescales):
            said = f"from position {match.start_index}, whatever start it is given,"
            change = {"start_index": match.start_index}
            yield Edit(Cause.START_INDEX_OFF, said, partial(_alone, change))
        said = f"as {names} encodes, from position {match.start_index},"
        yield Edit(Cause.OTHER_CONVENTION, said, partial(_alone, {**_USUAL, **match.layer_arguments()}))


def _signal(fault: LayerFault) -> Array:
    """Returns the rows that the artifact has added to the first input, put beside it, or returned instead."""
    layer, x, actual = fault.call.layer, fault.call.inputs[0], fault.actual
    assert actual is not None
    if layer.combine == "add":
        signal = actual - fault.expected + with_inputs(fault, [(x, np.zeros_like(x))])
    else:
        signal = actual[..., x.shape[-1] :] if layer.combine == "concatenate" else actual
    first: Array = signal[0]
    return first


def _alone(change: Mapping[str, Any], fault: LayerFault) -> Array:
    """Returns what the layer gives for its first argument alone, with other attributes."""
    call = replace(fault.call, arguments=fault.call.arguments[:1], keywords={})
    return with_attributes(replace(fault, call=call), dict(change))
