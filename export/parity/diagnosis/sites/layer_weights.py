"""Weights of the layer with other values, and the normalization that these and its statistics make."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, with_attributes, with_weights
from keras_pe.export.parity.diagnosis.relations import proposals
from keras_pe.export.parity.diagnosis.relations.proposals import Proposal
from keras_pe.export.parity.diagnosis.sites.other_values import Place, other_axes
from keras_pe.export.results import Array, Cause

_MOST_IN_PAIRS = 8  # weights of a layer, whose pairs are 28 then


def other_weights(fault: LayerFault) -> Edits:
    """Yields the layer with each of its weights left out, moved, scaled or raised to a power."""
    yield from _others(fault, _variables(fault))


def lost_weights(fault: LayerFault) -> Edits:
    """Yields the same of those that are nowhere in an artifact which holds others: they are computed into something.

    Of these alone the outputs tell whose they are: what is done to a weight may be done to that of the next layer.
    """
    if fault.sound_weights:
        yield from _others(fault, [each for each in _variables(fault) if each.path not in fault.sound_weights])


def _others(fault: LayerFault, variables: Iterable[Any]) -> Edits:
    for variable in variables:
        place = Place("with", repr(variable.path), partial(_value, variable), partial(_with_value, variable))
        values = _values(variable)
        is_sound = variable.path in fault.sound_weights  # what looks changed in it is done to what it is multiplied by
        yield from place.edits(_proposals(variable.path, values, is_sound))
        if not is_sound:
            yield place.scaled(Cause.SCALED_VALUES)


def weights_together(fault: LayerFault) -> Edits:
    """Yields the layer with two weights of one shape exchanged, or both left out."""
    variables = _variables(fault)
    if len(variables) <= _MOST_IN_PAIRS:
        for one, other in itertools.combinations(variables, 2):
            if one.shape != other.shape:
                continue
            names = f"{one.path!r} and {other.path!r}"
            for first, second in itertools.product(proposals.NEUTRAL, repeat=2):
                values = [(one, first.change(_values(one))), (other, second.change(_values(other)))]
                said = " and ".join(each.template.format(repr(v.path)) for each, v in ((first, one), (second, other)))
                yield Edit(Cause.MISSING_VALUES, f"with {said}", partial(with_weights, values=values))
            yield exchanged([(one, other)], names)


def exchanged(pairs: Sequence[tuple[Any, Any]], names: str) -> Edit:
    """Returns the edit that gives each weight of a pair the other one's values."""
    values = [(here, _values(there)) for one, other in pairs for here, there in ((one, other), (other, one))]
    return Edit(Cause.ANOTHER_WEIGHT, f"with {names} exchanged", partial(with_weights, values=values))


def _proposals(path: str, values: Array, is_sound: bool) -> Iterator[Proposal]:
    yield from proposals.NEUTRAL
    if path.endswith(("bias", "beta")):
        yield proposals.DOUBLED
    if not is_sound:
        yield from proposals.exchanged_axes(values)
        if values.ndim > 1:
            yield from proposals.backwards(values)
    yield from proposals.powers(values)


def _variables(fault: LayerFault) -> list[Any]:
    return [variable for variable in getattr(fault.call.layer, "variables", ()) if "float" in str(variable.dtype)]


def _values(variable: Any) -> Array:
    return as_array(variable.value).astype(np.float64)


def _value(variable: Any, _: LayerFault) -> Array:
    return _values(variable)


def _with_value(variable: Any, fault: LayerFault, array: Array) -> Array:
    return with_weights(fault, [(variable, array)])


def other_normalizations(fault: LayerFault) -> Edits:
    """Yields a layer normalization as another one would compute."""
    layer = fault.call.layer
    if not all(hasattr(layer, name) for name in ("axis", "center", "scale", "epsilon")) or hasattr(layer, "momentum"):
        return
    said = "without the mean taken off, as an RMSNormalization,"
    yield Edit(Cause.OTHER_OPERATION, said, _by_mean_square)
    for axes in other_axes(layer.get_config()["axis"]):
        said = f"normalized over the axes {axes} instead of {layer.get_config()['axis']}"
        yield Edit(Cause.OTHER_AXIS, said, partial(_over_axes, axes=axes))


def _by_mean_square(fault: LayerFault) -> Array:
    x, layer = fault.call.inputs[0].astype(np.float64), fault.call.layer
    square = np.mean(x * x, axis=tuple(np.atleast_1d(layer.axis)), keepdims=True)
    return _with_own_weights(fault, x / np.sqrt(square + layer.epsilon))


def _over_axes(fault: LayerFault, axes: list[int]) -> Array:
    return _with_own_weights(fault, with_attributes(fault, {"axis": axes, "center": False, "scale": False}))


def _with_own_weights(fault: LayerFault, plain: Array) -> Array:
    """Returns what a normalization makes of normalized values with its own weights, which stay on its own axes."""
    layer, ndim = fault.call.layer, fault.expected.ndim
    own = {axis % ndim for axis in np.atleast_1d(layer.axis)}
    shape = [size if axis in own else 1 for axis, size in enumerate(fault.expected.shape)]
    scaled = plain * as_array(layer.gamma.value).reshape(shape) if layer.scale else plain
    return scaled + as_array(layer.beta.value).reshape(shape) if layer.center else scaled
