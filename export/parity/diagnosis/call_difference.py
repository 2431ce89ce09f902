"""The difference of a call from the artifact in one case, and what an edit of the call leaves of it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.comparison.differences import absolute_difference
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, arguments_of, as_array, as_tensor
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.tensor_search import loose_tolerance
from keras_pe.export.results import Array

_EXPLAINS = 0.02  # an edit explains a difference if it leaves at most this much of it
_STEPS = 2  # steps of a recurrence; the second step shows the state after the first


class CallDifference:
    """The difference of one call in one case, and the measure of what an edit leaves of it."""

    def __init__(self, fault: LayerFault) -> None:
        self.fault, self.seen = fault, fault.through or fault
        self.actual = self.seen.sighting.held if self.seen.actual is None else self.seen.actual
        self.distance = 0.0 if self.actual is None else distance(self.actual, self.seen.expected)
        self.tolerance = self.seen.tolerance
        if self.actual is not None and is_float(self.seen.expected.dtype):  # rounding errors grow with the values
            held, own = (each.astype(self.seen.expected.dtype) for each in (self.actual, self.seen.expected))
            self.tolerance *= max(1.0, loose_tolerance(held) / loose_tolerance(own))
        self.allowed = self.tolerance if self.distance == np.inf else max(_EXPLAINS * self.distance, self.tolerance)

    def left_by(self, result: Array) -> float:
        """Returns the distance of a result from the artifact's value."""
        assert self.actual is not None
        is_whole = self.seen.actual is not None or result.ndim < 3
        forms = [result] if is_whole else [result, np.moveaxis(result, -1, 1)]
        return min(distance(self.actual, each) for each in forms)

    @property
    def values_out(self) -> float:
        """The number of wrong values; infinity if the shapes differ."""
        if self.actual is None or self.actual.shape != self.seen.expected.shape:
            return np.inf
        return float(np.count_nonzero(absolute_difference(self.seen.expected, self.actual) > self.tolerance))

    def near(self) -> "Iterator[CallDifference]":
        """Yields the call with each number among its inputs changed to the next larger, or smaller, number."""
        import keras

        def step_towards(limit: float, leaf: Any) -> Any:
            array = as_array(leaf) if keras.ops.is_tensor(leaf) else None
            if array is None or not is_float(array.dtype):
                return leaf
            return as_tensor(np.nextafter(array, np.asarray(limit, array.dtype)))

        call = self.fault.call
        for limit in (np.inf, -np.inf):
            given = keras.tree.map_structure(partial(step_towards, limit), (call.arguments, call.keywords))
            yield CallDifference(replace(self.fault, call=replace(call, arguments=given[0], keywords=given[1])))


def first_steps(fault: LayerFault) -> list[LayerFault]:
    """Returns the fault of a recurrent layer's first steps, which do not depend on later ones; empty for others.

    Each step of a recurrence takes time. An edit whose first steps differ from the artifact's need not run further.
    """
    import keras

    layer, inputs = fault.call.layer, fault.call.arguments
    is_forward = isinstance(layer, keras.layers.RNN) and layer.return_sequences and not layer.go_backwards
    if not is_forward or fault.actual is None or fault.through is not None or not inputs:
        return []
    if arguments_of(fault).get("mask") is not None or fault.index > 0 or fault.actual.shape[1] <= _STEPS:
        return []
    outputs = (fault.expected[:, :_STEPS],)
    begun = replace(fault.call, arguments=(inputs[0][:, :_STEPS], *inputs[1:]), outputs=outputs)
    return [replace(fault, call=begun).with_sighting(actual=fault.actual[:, :_STEPS])]
