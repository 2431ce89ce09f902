"""The difference of a call from the artifact in one case, and what an edit of the call leaves of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from keras_pe.export.comparison.differences import absolute_difference
from keras_pe.export.comparison.float_types import is_float, largest
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, arguments_of, as_array, as_tensor
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.tensor_search import loose_tolerance
from keras_pe.export.results import Array

_EXPLAINS = 0.02  # an edit explains a difference if it leaves at most this much of it
_NOISE = 2.0**-21  # noise of a call's inputs, relative to the largest one
_DRAWS = 8  # trials with other noise, since each changes a choice between two values by chance
_SLACK = 2.0  # factor on the noise of a result, which comes from a few runs
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
        """Yields the call with other numbers among its inputs, as another order of additions before it may give."""
        import keras

        draw = np.random.default_rng(0)

        def with_noise(leaf: Any) -> Any:
            array = as_array(leaf) if keras.ops.is_tensor(leaf) else None
            if array is None or not is_float(array.dtype):
                return leaf
            noise = _NOISE * largest(array, 0.0) * draw.uniform(-1, 1, array.shape)
            return as_tensor((array + noise).astype(array.dtype))

        call = self.fault.call
        for _ in range(_DRAWS):
            given = keras.tree.map_structure(with_noise, (call.arguments, call.keywords))
            yield CallDifference(replace(self.fault, call=replace(call, arguments=given[0], keywords=given[1])))

    def is_noise(self, own: Array, near: Sequence[Array]) -> bool:
        """Whether other inputs change each row of an edit's result by as much as it differs from the artifact.

        A choice, as of the largest values, may be another one in a few rows.
        """
        is_alike = self.actual is not None and {self.actual.shape} == {each.shape for each in (own, *near)}
        if self.actual is None or not is_alike or not near or own.ndim == 0:
            return False
        left = absolute_difference(self.actual, own)
        moves = np.max([absolute_difference(each, own) for each in near], axis=0)
        noise = moves.reshape(len(own), -1).max(axis=1, initial=0.0)
        rows = left.reshape(len(own), -1).max(axis=1, initial=0.0)
        return bool(np.all((rows <= np.maximum(self.allowed, _SLACK * noise)) & np.isfinite(noise)))


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
