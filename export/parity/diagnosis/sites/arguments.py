"""An argument of the call, other than the arrays that the layer works on: left out, or another one."""

from collections.abc import Callable, Mapping
from typing import Any

from keras_pe.export.parity.diagnosis.edits import Edit
from keras_pe.export.parity.diagnosis.layer_call import call, given
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause


def with_arguments(cause: Cause, said: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Edit:
    """Returns the edit that gives a call other arguments by name, which are made of those that it has."""

    def compute(fault: LayerFault) -> Array:
        arguments = given(fault)
        return call(fault.call.layer, {**arguments, **change(arguments)}, fault)

    return Edit(cause, said, compute)
