"""The layer at fault given something else: altered on the way, another layer's output, past what is computed before."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.layer_call import as_array, as_tensor, with_input
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.relations.proposals import Proposal, backwards, clipped, stepped
from keras_pe.export.parity.diagnosis.sites.other_values import activations
from keras_pe.export.results import Array, Cause

_CAUSES = {Cause.REVERSED_VALUES: Cause.REVERSED_INPUT}


def altered_inputs(fault: LayerFault) -> Edits:
    """Yields what a layer is given with something done to it on the way: an artifact may hold the right one too."""
    if fault.through is not None:
        return
    for number, array in enumerate(fault.call.inputs):
        which = "its input" if len(fault.call.inputs) == 1 else f"input {number}"
        is_float = array.dtype.kind == "f"
        if is_float:
            yield _scaled(fault, which, array)
        for proposal in _proposals(fault, array):
            cause, said = _CAUSES.get(proposal.cause, proposal.cause), proposal.template.format(which)
            yield Edit(cause, f"given {said}", partial(with_input, fault, array, proposal.array))
        for name, function in activations().items() if is_float and not _is_recurrent(fault.call.layer) else ():
            activated = partial(_activated, fault, array, function, array)
            yield Edit(Cause.OTHER_ACTIVATION, f"given {which} through {name}", activated)
        for other in (other for place, other in fault.reordered if place == number):
            said = f"given {which} in another order"
            yield Edit(Cause.REORDERED_INPUT, said, partial(with_input, fault, array, other))
        for path, other in _taken_instead(fault, array):
            said = f"given {path} in the place of {which}"
            yield Edit(Cause.OTHER_INPUT, said, partial(with_input, fault, array, other))


def other_inputs(fault: LayerFault) -> Edits:
    """Yields what the code of the layer around this one computes for it, left out, or with another activation."""
    for loose in fault.loose:
        for path, output in fault.before:
            if output.shape != loose.shape:
                continue
            said = f"the output of {path!r} in the place of what the code around it computes,"
            yield Edit(Cause.OPERATION_LEFT_OUT, f"given {said}", partial(with_input, fault, loose, output))
            for name, function in activations().items():
                activated = partial(_activated, fault, loose, function, output)
                yield Edit(Cause.OTHER_ACTIVATION, f"given {name} of {said}", activated)


def _proposals(fault: LayerFault, array: Array) -> Iterator[Proposal]:
    if array.dtype.kind in "iu":
        yield from stepped(array, getattr(fault.call.layer, "input_dim", 2**31) - 1)
    elif array.dtype.kind == "f":
        yield from backwards(array, first_axis=1)
        yield from clipped(array)


def _scaled(fault: LayerFault, which: str, array: Array) -> NumericEdit:
    def edit(numbers: Any) -> Edit:
        said = f"given {which} times {numbers['factor']:.6g}"
        return Edit(Cause.SCALED_INPUT, said, partial(with_input, fault, array, numbers["factor"] * array))

    return NumericEdit({"factor": 1.0}, lambda factor: with_input(fault, array, factor * array), edit)


def _taken_instead(fault: LayerFault, array: Array) -> Iterator[tuple[str, Array]]:
    """Yields what a layer may have been given instead: what others returned, one of its steps, or their mean."""
    for path, output in fault.before:
        if output.shape == array.shape:
            if not np.array_equal(output, array):
                yield f"the output of {path!r}", output
        else:
            for said, step in (("first", output[:, 0]), ("last", output[:, -1])):
                yield f"the {said} step of the output of {path!r}", step
            yield f"the mean over the steps of the output of {path!r}", output.mean(1)


def _is_recurrent(layer: Any) -> bool:
    """Whether a call of a layer goes step by step, and takes its time."""
    import keras

    return isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional)


def _activated(fault: LayerFault, old: Array, function: Callable[[Any], Any], new: Array) -> Array:
    return with_input(fault, old, as_array(function(as_tensor(new))))
