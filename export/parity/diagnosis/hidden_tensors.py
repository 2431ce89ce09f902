"""The calls of a model in every case, and the outputs of an artifact whose inner tensors are unavailable."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.recording import LayerCall, replaced_output, state_left_alone
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, Sighting, Surroundings, as_array, as_tensor
from keras_pe.export.parity.diagnosis.recorded_cases import MOST_BEFORE, RecordedCase, is_answered, other_cases
from keras_pe.export.results import Array


@dataclass(frozen=True)
class ModelOutputs:
    """A model as a layer: its concatenated outputs if one of its calls returns another array.

    Attributes:
        reference: Calls the model.
        model: The model.
        inputs: The inputs of the model.
        place: The path of the changed call, and the number of its changed output; None without a change.
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
        """Returns the concatenated outputs."""
        replacing = nullcontext() if self.place is None else replaced_output(self.model, *self.place, as_array(output))
        with replacing:
            return as_tensor(_in_a_row(self.reference.predict(self.model, self.inputs)))


def _in_a_row(outputs: Mapping[str, Array]) -> Array:
    """Returns the concatenated values of all float outputs."""
    return np.concatenate([outputs[name].ravel() for name in sorted(outputs) if is_float(outputs[name].dtype)])


class OutsideView:
    """The calls of a model in every case, and the outputs of an artifact that shows no inner tensors.

    Args:
        probe: The runtime.
        reference: The model.
        number: The case in which faults are sought.
    """

    def __init__(self, probe: Probe, reference: KerasReference, number: int) -> None:
        self._first = _OutsideCase(probe, reference, number)
        others = other_cases(probe, probe.run.expectations[number])
        self._others = [_OutsideCase(probe, reference, other) for other in others if is_answered(probe, other)]

    def faults(self) -> Iterator[LayerFault]:
        """Yields the model as one layer, then each layer that returns integers or floats as if it were at fault."""
        yield self._first.model
        for call in self._first.makers.values():
            if call.outputs[0].dtype.kind in "iu":
                yield self._first.fault(LayerFault(call, 0, 0.0), call)
        for output in self._first.outputs:
            yield self._first.fault(LayerFault(output.call, output.index, output.tolerance), output.call)

    def others(self, fault: LayerFault) -> Iterator[LayerFault]:
        """Yields a fault in each other case, except cases in which the model does not make the call."""
        for case in self._others:
            if fault.through is None:
                yield case.model
            elif (call := next((each for each in case.calls if each.path == fault.call.path), None)) is not None:
                yield case.fault(fault, call)


class _OutsideCase(RecordedCase):
    """The outputs of Keras and of the artifact in one case."""

    def __init__(self, probe: Probe, reference: KerasReference, number: int) -> None:
        super().__init__(probe, reference, probe.run.expectations[number])
        self._answer, self._comparisons = probe.run.answers[number], probe.run.result.cases[number].comparisons

    @cached_property
    def model(self) -> LayerFault:
        """The model as the layer at fault."""
        assert self._answer is not None
        layer = ModelOutputs(self.reference, self.keras_model, self.inputs)
        with state_left_alone():
            expected = self.reference.predict(self.keras_model, self.inputs)
        actual = {name: self._answer[name] for name in expected}
        call = LayerCall(layer.name, layer, (), {}, (), (_in_a_row(expected),), 0)
        tolerance = max((each.tolerance for each in self._comparisons), default=0.0)
        around = Surroundings(sizes=self.probe.sizes(self.inputs))
        return LayerFault(call, 0, tolerance, Sighting(actual=_in_a_row(actual)), around)

    def fault(self, fault: LayerFault, call: LayerCall) -> LayerFault:
        """Returns a layer as if it were at fault."""
        output = call.outputs[fault.index]
        layer = replace(self.model.call.layer, place=(call.path, fault.index))
        whole = replace(self.model.call, layer=layer, arguments=(as_tensor(output),), inputs=(output,))
        through = replace(self.model, call=whole)
        before, sizes = self._nearest(call), self.model.around.sizes
        found = replace(fault, call=call).with_sighting(kind="downstream", through=through)
        return found.amid(sizes=sizes, before=before, made_by=self.makers_of(call))

    def _nearest(self, call: LayerCall) -> dict[str, Array]:
        """Returns the nearest earlier outputs with the shape of an input of a call, by the path of their call."""
        end = next(number for number, each in enumerate(self.calls) if each.path == call.path)
        shapes = {array.shape for array in call.inputs if array.dtype.kind == "f"}
        known = ((each.path, each.outputs[0]) for each in reversed(self.calls[:end]) if len(each.outputs) == 1)
        fitting = ((path, array) for path, array in known if array.dtype.kind == "f" and array.shape in shapes)
        return dict(itertools.islice(fitting, MOST_BEFORE))
