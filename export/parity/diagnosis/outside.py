"""Layers of an artifact that shows its outputs alone: each as a fault that shows there, and what proves it."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from keras_pe.export.comparison.law import is_float
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.recording import LayerCall, record_calls, replaced_output, state_left_alone
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, as_tensor, with_weights
from keras_pe.export.parity.diagnosis.other_cases import other_cases, rank
from keras_pe.export.parity.diagnosis.probe import Probe, distance
from keras_pe.export.parity.diagnosis.recorded_outputs import RecordedOutput, record_outputs
from keras_pe.export.parity.diagnosis.search import explain
from keras_pe.export.parity.diagnosis.sites.table import Seen, sites_seen
from keras_pe.export.results import Array, CaseResult, CaseStatus, Finding

_TELLING = 16  # values: numbers of a layer are not fitted to fewer
_NEARER = 0.5  # of the difference: less of it is left by chance


@dataclass(frozen=True)
class ModelOutputs:
    """A model as a layer: what its outputs are, in a row, where one of its calls returns another array.

    Attributes:
        reference: What calls it.
        model: The model.
        inputs: What it is given.
        place: The path of the call, and which of its outputs is another one; None where none is.
    """

    reference: KerasReference
    model: Any
    inputs: Mapping[str, Array]
    place: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.model.name)

    def call(self, output: Any = None) -> Any:
        """Returns the outputs in a row."""
        replacing = nullcontext() if self.place is None else replaced_output(self.model, *self.place, as_array(output))
        with replacing:
            return as_tensor(in_a_row(self.reference.predict(self.model, self.inputs)))


def in_a_row(outputs: Mapping[str, Array]) -> Array:
    """Returns the values of all outputs of numbers with a fraction."""
    return np.concatenate([outputs[name].ravel() for name in sorted(outputs) if is_float(outputs[name].dtype)])


def is_answered(probe: Probe, number: int) -> bool:
    """Whether the artifact's outputs stand beside the model's in a case: all of them, in their shapes."""
    expected, answer = probe.expectations[number].outputs or {}, probe.answers[number] or {}
    shapes = {name: array.shape for name, array in expected.items()}
    return bool(shapes) and all(name in answer and answer[name].shape == shape for name, shape in shapes.items())


def telling_case(probe: Probe) -> int | None:
    """Returns the number of the failing case that tells most."""
    usable = [
        number
        for number, case in enumerate(probe.result.cases)
        if case.status == CaseStatus.FAILED and is_answered(probe, number) and _is_finite(case)
    ]
    expected = [{} if each.outputs is None else each.outputs for each in probe.expectations]
    values = [min(_TELLING, sum(array.size for array in outputs.values())) for outputs in expected]
    return min(usable, key=lambda number: (-values[number], rank(probe.expectations[number])), default=None)


def _is_finite(case: CaseResult) -> bool:
    return all(np.isfinite(comparison.max_abs_diff) for comparison in case.comparisons)


def comes_nearer(probe: Probe, reference: KerasReference, stored: Mapping[str, Array]) -> bool:
    """Whether the model with other values of its weights, by their paths, returns what the artifact does, or half way.

    It is so as well where no case tells.
    """
    number = telling_case(probe)
    if number is None:
        return True
    fault = next(OutsideView(probe, reference, number).faults())
    assert fault.actual is not None
    paths = [variable.path for variable in reference.model.weights]
    values = zip(paths, fault.call.layer.model.weights, strict=True)
    given = with_weights(fault, [(variable, stored[path]) for path, variable in values if path in stored])
    return distance(given, fault.actual) <= _NEARER * distance(fault.expected, fault.actual)


class OutsideView:
    """The calls of a model in every case, beside the artifact's outputs.

    Args:
        probe: The runtime.
        reference: The model.
        number: Which case the faults are looked for in.
    """

    def __init__(self, probe: Probe, reference: KerasReference, number: int) -> None:
        self._first = _Case(probe, reference, number)
        self._sound_weights = probe.sound_weights
        others = other_cases(probe, probe.expectations[number])
        self._others = [_Case(probe, reference, other) for other in others if is_answered(probe, other)]

    def faults(self) -> Iterator[LayerFault]:
        """Yields the model as one layer, then each of its layers as if it were the one at fault."""
        yield self._first.model
        for output in self._first.outputs():
            calls = dict.fromkeys(each.path for each in self._first.calls if each.layer is output.call.layer)
            sound = self._sound_weights
            fault = LayerFault(output.call, output.index, output.tolerance, sound_weights=sound, calls=tuple(calls))
            yield self._first.fault(fault, output.call)

    def others(self, fault: LayerFault) -> Iterator[LayerFault]:
        """Yields a fault as it is in each other case; none in which the model does not make that call."""
        for case in self._others:
            if fault.through is None:
                yield case.model
            elif (call := next((each for each in case.calls if each.path == fault.call.path), None)) is not None:
                yield case.fault(fault, call)


class _Case:
    """What Keras computes in one case, and what the artifact returns."""

    def __init__(self, probe: Probe, reference: KerasReference, number: int) -> None:
        self._probe, self._reference = probe, reference
        self._expectation, self._result = probe.expectations[number], probe.result.cases[number]
        self._inputs, self._answer = self._expectation.case.inputs, probe.answers[number]
        is_half = self._expectation.in_float32 is not None
        self._model = reference.float32_model if is_half else reference.model

    def outputs(self) -> list[RecordedOutput]:
        """Returns the outputs of the layers, without those that only hand on what they are given."""
        return record_outputs(self._reference, self._expectation)

    @cached_property
    def calls(self) -> list[LayerCall]:
        """The calls of the layers."""
        self._probe.budget.check()
        with state_left_alone():
            return record_calls(self._model, lambda: self._reference.predict(self._model, self._inputs))

    @cached_property
    def model(self) -> LayerFault:
        """The model as the layer at fault."""
        assert self._answer is not None
        layer = ModelOutputs(self._reference, self._model, self._inputs)
        with state_left_alone():
            expected = self._reference.predict(self._model, self._inputs)
        actual = {name: self._answer[name] for name in expected}
        call = LayerCall(layer.name, layer, (), {}, (), (in_a_row(expected),), 0)
        tolerance = max((each.tolerance for each in self._result.comparisons), default=0.0)
        return LayerFault(call, 0, tolerance, actual=in_a_row(actual), sizes=self._probe.sizes(self._inputs))

    def fault(self, fault: LayerFault, call: LayerCall) -> LayerFault:
        """Returns a layer as if it were the one at fault."""
        output = call.outputs[fault.index]
        layer = replace(self.model.call.layer, place=(call.path, fault.index))
        whole = replace(self.model.call, layer=layer, arguments=(as_tensor(output),), inputs=(output,))
        return replace(fault, call=call, through=replace(self.model, call=whole), sizes=self.model.sizes)


def changed_layers(probe: Probe) -> Iterator[Finding]:
    """A layer that became something else, or several, in an artifact of which the outputs alone tell."""
    from keras_pe.export.comparison.references.keras import KerasReference

    number = telling_case(probe)
    if number is None or not isinstance(probe.reference, KerasReference):
        return
    outside = OutsideView(probe, probe.reference, number)
    probe = replace(probe, others=outside.others)
    for fault in outside.faults():
        probe.budget.check()
        found = explain(probe, fault, sites_seen(Seen.MODEL if fault.through is None else Seen.OUTPUTS))
        if found is not None and found.is_exact:
            yield found.finding if fault.through is not None else replace(found.finding, layer=None)
            return
