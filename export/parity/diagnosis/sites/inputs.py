"""The layer at fault given something else: altered on the way, another layer's output, past what is computed before."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, as_tensor, with_inputs
from keras_pe.export.parity.diagnosis.relations import proposals
from keras_pe.export.parity.diagnosis.relations.proposals import Proposal
from keras_pe.export.parity.diagnosis.sites.other_values import Place, activations
from keras_pe.export.results import Array, Cause

_OF_STEPS: dict[str, Callable[[Array], Array]] = {
    "the output": lambda output: output,
    "the first step of the output": lambda output: output[:, 0],
    "the last step of the output": lambda output: output[:, -1],
    "the mean over the steps of the output": lambda output: output.mean(1),
}


def altered_inputs(fault: LayerFault) -> Edits:
    """Yields what a layer is given with something done to it on the way: an artifact may hold the right one too."""
    if fault.through is not None:
        return
    for number, array in enumerate(fault.call.inputs):
        place = _place(fault, number)
        if array.dtype.kind == "f":
            yield place.scaled(Cause.SCALED_INPUT)
        yield from place.edits(_proposals(fault, array))
        yield from (_reordered(place, number, which) for which in range(_count(fault.reordered, number)))
        yield from _taken_instead(place, fault, array)


def exchanged_inputs(fault: LayerFault) -> Edits:
    """Yields the layer with two of its inputs in each other's places."""
    for one, other in itertools.combinations(range(len(fault.call.inputs)), 2):
        first, second = fault.call.inputs[one], fault.call.inputs[other]
        if (first.shape, first.dtype) == (second.shape, second.dtype) and not np.array_equal(first, second):

            def exchanged(fault: LayerFault, one: int = one, other: int = other) -> Array:
                inputs = fault.call.inputs
                return with_inputs(fault, [(inputs[one], inputs[other]), (inputs[other], inputs[one])])

            yield Edit(Cause.EXCHANGED_INPUTS, f"given inputs {one} and {other} in each other's places", exchanged)


def other_inputs(fault: LayerFault) -> Edits:
    """Yields what the code of the layer around this one computes for it, left out, or with another activation."""
    for number, loose in enumerate(fault.loose):
        for path, output in fault.before:
            if output.shape != loose.shape:
                continue
            said = f"the output of {path!r} in the place of what the code around it computes,"
            yield Edit(Cause.OPERATION_LEFT_OUT, f"given {said}", _computed_of(number, path, lambda x: x))
            for name, function in activations().items():
                yield Edit(Cause.OTHER_ACTIVATION, f"given {name} of {said}", _computed_of(number, path, function))


def _place(fault: LayerFault, number: int) -> Place:
    name = "its input" if len(fault.call.inputs) == 1 else f"input {number}"

    def put(fault: LayerFault, array: Array) -> Array:
        return with_inputs(fault, [(fault.call.inputs[number], array)])

    return Place("given", name, lambda fault: fault.call.inputs[number], put)


def _proposals(fault: LayerFault, array: Array) -> Iterator[Proposal]:
    if array.dtype.kind in "iu":
        yield from proposals.stepped(getattr(fault.call.layer, "input_dim", 2**31) - 1)
    elif array.dtype.kind == "f":
        yield from proposals.backwards(array, first_axis=1, cause=Cause.REVERSED_INPUT)
        yield from proposals.clipped()
        yield proposals.FIRST_ROW
        for name, function in activations().items() if not _is_recurrent(fault.call.layer) else ():
            yield Proposal(Cause.OTHER_ACTIVATION, f"{{}} through {name}", _of_arrays(function))


def _reordered(place: Place, number: int, which: int) -> Edit:
    def given(fault: LayerFault) -> Array:
        return place.put(fault, [array for own, array in fault.reordered if own == number][which])

    return Edit(Cause.REORDERED_INPUT, f"given {place.name} in another order", given)


def _count(reordered: tuple[tuple[int, Array], ...], number: int) -> int:
    return sum(own == number for own, _ in reordered)


def _taken_instead(place: Place, fault: LayerFault, array: Array) -> Edits:
    """Yields what a layer may have been given instead: what others returned, one of its steps, or their mean."""
    for path, output in fault.before:
        for said, part in _OF_STEPS.items():
            is_whole = output.shape == array.shape
            if is_whole != (said == "the output") or (is_whole and np.array_equal(output, array)):
                continue

            def given(fault: LayerFault, path: str = path, part: Callable[[Array], Array] = part) -> Array:
                return place.put(fault, part(dict(fault.before)[path]))

            yield Edit(Cause.OTHER_INPUT, f"given {said} of {path!r} in the place of {place.name}", given)


def _computed_of(number: int, path: str, function: Callable[[Any], Any]) -> Callable[[LayerFault], Array]:
    """Returns the edit that gives a layer a function of another one's output for what the code around it computes."""
    compute = _of_arrays(function)
    return lambda fault: with_inputs(fault, [(fault.loose[number], compute(dict(fault.before)[path]))])


def _is_recurrent(layer: Any) -> bool:
    """Whether a call of a layer goes step by step, and takes its time."""
    import keras

    return isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional)


def _of_arrays(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    return lambda array: as_array(function(as_tensor(array)))
