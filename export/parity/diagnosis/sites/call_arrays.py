"""Edits of the arrays of a call: inputs and weights that are left out, changed, exchanged, or replaced."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis import edits
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, Place, Proposal
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, on_arrays, with_inputs, with_weights
from keras_pe.export.parity.diagnosis.sites.activations import activations
from keras_pe.export.results import Array, Cause

_MOST_IN_PAIRS = 8  # largest number of weights to try in pairs, 28 pairs at most
_MOST_REORDERED = 8
_OF_STEPS: dict[str, Callable[[Array], Array]] = {
    "the output": lambda output: output,
    "the first step of the output": lambda output: output[:, 0],
    "the last step of the output": lambda output: output[:, -1],
    "the mean over the steps of the output": lambda output: output.mean(1),
}


def altered_inputs(fault: LayerFault) -> Edits:
    """Yields changes of a layer's inputs, even if the artifact has the right input in a tensor."""
    for number, array, place in input_places(fault) if fault.through is None else ():
        if array.dtype.kind == "f":
            yield place.scaling_edit(Cause.SCALED_INPUT)
        yield from place.edits(_input_proposals(fault, array))
        for tensor in itertools.islice(fault.around.reordered(number), _MOST_REORDERED):
            description, other = f"given {place.name} in another order", partial(_reordered_input, number, tensor)
            yield place.replacement(Cause.REORDERED_INPUT, description, other)
        yield from _taken_instead(place, fault, array, _OF_STEPS)


def other_sources(fault: LayerFault) -> Edits:
    """Yields a layer of several inputs with an earlier output in place of each, as for a wrong skip connection."""
    for _, array, place in input_places(fault) if len(fault.call.inputs) > 1 else ():
        yield from _taken_instead(place, fault, array, ("the output",))


def dropped_inputs(fault: LayerFault) -> Edits:
    """Yields a layer of several inputs with each of them at zero."""
    for number, array, place in input_places(fault) if len(fault.call.inputs) > 1 else ():
        if array.dtype.kind == "f":
            source = fault.around.sources[number] if fault.around.sources else ""
            description = f"with {place.name}{f', from {source!r},' if source else ''} at zero"
            yield from replace(place, how="").edits([Proposal(Cause.DROPPED_INPUT, description, np.zeros_like)])


def exchanged_inputs(fault: LayerFault) -> Edits:
    """Yields the layer with two of its inputs exchanged."""
    for one, other in itertools.combinations(range(len(fault.call.inputs)), 2):
        first, second = fault.call.inputs[one], fault.call.inputs[other]
        if (first.shape, first.dtype) == (second.shape, second.dtype) and not np.array_equal(first, second):

            def exchange(fault: LayerFault, one: int = one, other: int = other) -> Array:
                inputs = fault.call.inputs
                return with_inputs(fault, [(inputs[one], inputs[other]), (inputs[other], inputs[one])])

            yield Edit(Cause.EXCHANGED_INPUTS, f"with inputs {one} and {other} exchanged", exchange)


def other_inputs(fault: LayerFault) -> Edits:
    """Yields inputs that the enclosing layer's code computes, left out or with another activation."""
    for number, loose in enumerate(fault.around.loose):
        place = _input_place(lambda fault: fault.around.loose, number, "the result of the code around it")
        for path in (path for path, output in fault.around.before.items() if output.shape == loose.shape):
            description = f"the output of {path!r} instead of {place.name}"
            yield place.replacement(Cause.OPERATION_LEFT_OUT, f"given {description}", partial(_before, path))
            for name, function in activations().items():
                other = partial(_before, path, part=on_arrays(function))
                yield place.replacement(Cause.OTHER_ACTIVATION, f"given {name} of {description}", other)


def input_places(fault: LayerFault) -> Iterator[tuple[int, Array, Place]]:
    """Yields the number, the array and the place of each input of a call."""
    for number, array in enumerate(fault.call.inputs):
        name = "its input" if len(fault.call.inputs) == 1 else f"input {number}"
        yield number, array, _input_place(lambda fault: fault.call.inputs, number, name)


def _input_place(arrays: Callable[[LayerFault], Sequence[Array]], number: int, name: str) -> Place:
    """Returns the place of one of several arrays among the layer's inputs."""

    def apply(function: Callable[[Array], Array], fault: LayerFault) -> Array:
        own = arrays(fault)[number]
        return with_inputs(fault, [(own, function(own))])

    return Place("given", name, apply)


def _input_proposals(fault: LayerFault, array: Array) -> Iterator[Proposal]:
    if array.dtype.kind in "iu":
        yield from edits.integer_steps(0, getattr(fault.call.layer, "input_dim", 2**31) - 1)
    elif array.dtype.kind == "f":
        yield from edits.backwards(array, first_axis=1, cause=Cause.REVERSED_INPUT)
        yield from edits.CLIPPED
        yield edits.FIRST_ROW
        if not _is_recurrent(fault.call.layer):
            yield from edits.through(activations(), Cause.OTHER_ACTIVATION)


def _reordered_input(number: int, tensor: str, fault: LayerFault) -> Array:
    return fault.around.reordered(number)[tensor]


def _taken_instead(place: Place, fault: LayerFault, array: Array, parts: Iterable[str]) -> Edits:
    """Yields replacements of a layer's input by parts of earlier outputs, see `_OF_STEPS`."""
    for path, output in fault.around.before.items():
        for name in parts:
            is_whole = output.shape == array.shape
            if is_whole == (name == "the output") and not (is_whole and np.array_equal(output, array)):
                description = f"given {name} of {path!r} instead of {place.name}"
                part = partial(_before, path, part=_OF_STEPS[name])
                yield place.replacement(Cause.OTHER_INPUT, description, part)


def _before(path: str, fault: LayerFault, part: Callable[[Array], Array] = lambda output: output) -> Array:
    return part(fault.around.before[path])


def _is_recurrent(layer: Any) -> bool:
    """Whether a call of a layer runs step by step, which takes time."""
    import keras

    return isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional)


def other_weights(fault: LayerFault) -> Edits:
    """Yields the layer with each of its weights left out, permuted, scaled or raised to a power."""
    yield from _others(fault, _variables(fault))


def lost_weights(fault: LayerFault) -> Edits:
    """Yields the edits of weights that are missing in an artifact with other weights, since it has transformed them.

    Only these weights can be identified by the outputs alone. A change of another weight might be one of the next
    layer.
    """
    if fault.around.sound_weights:
        yield from _others(fault, [each for each in _variables(fault) if each.path not in fault.around.sound_weights])


def _others(fault: LayerFault, variables: Iterable[Any]) -> Edits:
    for variable in variables:
        place, values = _weight_place(variable), _values(variable)
        # An apparent change of a correctly stored weight is a change of its factor.
        is_sound = variable.path in fault.around.sound_weights
        yield from place.edits(_weight_proposals(variable.path, values, is_sound))
        if not is_sound:
            yield place.scaling_edit(Cause.SCALED_VALUES)


def weights_together(fault: LayerFault) -> Edits:
    """Yields the layer with two weights of equal shape exchanged, or both left out."""
    variables = _variables(fault)
    if len(variables) <= _MOST_IN_PAIRS:
        for one, other in itertools.combinations(variables, 2):
            if one.shape != other.shape:
                continue
            names = f"{one.path!r} and {other.path!r}"
            for first, second in itertools.product(edits.NEUTRAL, repeat=2):
                values = [(one, first.change(_values(one))), (other, second.change(_values(other)))]
                description = " and ".join(
                    each.template.format(repr(v.path)) for each, v in ((first, one), (second, other))
                )
                yield Edit(Cause.MISSING_VALUES, f"with {description}", partial(with_weights, values=values))
            yield exchanged_weights([(one, other)], names)


def exchanged_weights(pairs: Sequence[tuple[Any, Any]], names: str) -> Edit:
    """Returns the edit that exchanges the values of each pair of weights."""
    values = [(here, _values(there)) for one, other in pairs for here, there in ((one, other), (other, one))]
    return Edit(Cause.ANOTHER_WEIGHT, f"with {names} exchanged", partial(with_weights, values=values))


def _weight_place(variable: Any) -> Place:
    def apply(function: Callable[[Array], Array], fault: LayerFault) -> Array:
        return with_weights(fault, [(variable, function(_values(variable)))])

    return Place("with", repr(variable.path), apply)


def _weight_proposals(path: str, values: Array, is_sound: bool) -> Iterator[Proposal]:
    yield from edits.NEUTRAL
    if path.endswith(("bias", "beta")):
        yield edits.DOUBLED
        for row in range(len(values)) if values.ndim == 2 else ():  # the biases of the input and of the state
            yield Proposal(Cause.ADDED_TWICE, f"row {row} of {{}} added twice", partial(_multiplied_row, row, 2))
            yield Proposal(Cause.MISSING_VALUES, f"row {row} of {{}} at zero", partial(_multiplied_row, row, 0))
    if not is_sound:
        yield from edits.exchanged_axes(values)
        if values.ndim > 1:
            yield from edits.backwards(values)
    yield from edits.powers(values)


def _multiplied_row(row: int, factor: int, values: Array) -> Array:
    multiplied = values.copy()
    multiplied[row] *= factor
    return multiplied


def _variables(fault: LayerFault) -> list[Any]:
    return [variable for variable in getattr(fault.call.layer, "variables", ()) if "float" in str(variable.dtype)]


def _values(variable: Any) -> Array:
    return as_array(variable.value).astype(np.float64)
