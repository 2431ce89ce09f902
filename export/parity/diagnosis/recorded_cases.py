"""Records the layers' outputs in a case of a check, and ranks the cases by their use for a diagnosis."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.tolerance import MAX_FACTOR, STRICT, noise_floor
from keras_pe.export.model.rebuild import float64_allowed
from keras_pe.export.model.watch.code_places import is_users_module
from keras_pe.export.model.watch.keras_internals import loops_as_graphs
from keras_pe.export.model.watch.layer_paths import is_inside
from keras_pe.export.model.watch.recording import LayerCall, record_calls, replaced_output, state_left_alone
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.inside_calls import CodeBefore
from keras_pe.export.parity.diagnosis.relations import is_number
from keras_pe.export.parity.diagnosis.tensor_search import Tensors
from keras_pe.export.results import Array, CaseStatus, Problem, RunStatus
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CASES = 8
MOST_BEFORE = 8  # earlier outputs that are tried as an input of a layer
_FEW_POSITIONS = 5  # below this length, all encodings are alike
_USUAL = 1e3  # larger values only occur in cases with large values on purpose
_TELLING = 16  # least number of values that a layer's numbers are fitted to
_SLACK = 2.0  # factor on the tolerance of outputs, since a layer's own noise floor comes from a single run


def rank(expectation: Expectation) -> tuple[bool, bool, bool, int, int]:
    """Orders cases by how much they show, and equal cases by length, the shorter first.

    A case shows most if its values are usual, it has several positions to distinguish conventions, and no axis has size
    1. An axis of size 1 has no visible place among the others.
    """
    arrays = expectation.case.inputs.values()
    sequences = [array for array in arrays if array.ndim > 2] or [array for array in arrays if array.ndim > 1]
    longest = max((array.shape[1] for array in arrays if array.ndim > 1), default=0)
    is_short = any(array.shape[1] < _FEW_POSITIONS for array in sequences)
    is_flat = any(1 in array.shape for array in sequences)
    numbers = [array for array in arrays if array.size and array.dtype.kind == "f"]
    is_large = any(np.abs(array).max() > _USUAL for array in numbers)
    return is_large, is_short, is_flat, longest, sum(array.size for array in arrays)


def first_case(probe: Probe) -> Expectation | None:
    """Returns the smallest telling failed case, in which layers are traced; None if they cannot be traced."""
    failing = probe.failing()
    failing = [row for row in failing if all(c.problem is not Problem.SHAPE for c in row[0].comparisons)] or failing
    if not failing or not isinstance(probe.reference, KerasReference) or probe.run.result.status != RunStatus.COMPARED:
        return None
    return min((expectation for _, expectation, _ in failing), key=rank)


def telling_case(probe: Probe) -> int | None:
    """Returns the number of the failing case whose outputs show most."""
    usable = [
        number
        for number, case in enumerate(probe.run.result.cases)
        if case.status == CaseStatus.FAILED and is_answered(probe, number)
        if all(np.isfinite(comparison.max_abs_diff) for comparison in case.comparisons)
    ]
    expected = [{} if each.outputs is None else each.outputs for each in probe.run.expectations]
    values = [min(_TELLING, sum(array.size for array in outputs.values())) for outputs in expected]
    return min(usable, key=lambda number: (-values[number], rank(probe.run.expectations[number])), default=None)


def is_answered(probe: Probe, number: int) -> bool:
    """Whether the artifact has returned all outputs of a case in the model's shapes."""
    expected, answer = probe.run.expectations[number].outputs or {}, probe.run.answers[number] or {}
    shapes = {name: array.shape for name, array in expected.items()}
    return bool(shapes) and all(name in answer and answer[name].shape == shape for name, shape in shapes.items())


def other_cases(probe: Probe, first: Expectation) -> list[int]:
    """Returns the numbers of the telling cases other than `first`, the smallest first, up to a limit."""
    usable = [
        number
        for number, (result, each, _) in enumerate(probe.rows)
        if result.status != CaseStatus.SKIPPED and each is not first and not each.case.repeats and _is_finite(each)
    ]
    usable.sort(key=lambda number: sum(array.size for array in probe.run.expectations[number].case.inputs.values()))
    return usable[:_MOST_CASES]


def _is_finite(expectation: Expectation) -> bool:
    """Whether all outputs of a case are finite. Infinities and NaN equal each other, which would hide differences."""
    arrays = [array for array in (expectation.outputs or {}).values() if array.dtype.kind == "f"]
    return expectation.outputs is not None and all(np.isfinite(array).all() for array in arrays)


@dataclass(frozen=True)
class RecordedOutput:
    """One output of one call of a layer.

    Attributes:
        number: Index in the order of computation.
        call: The call.
        index: Number of the output among the call's outputs.
        sources: The numbers of the outputs that the layer takes.
        tolerance: The tolerance of the output.
        loose_inputs: Float inputs of the layer that are neither a layer's output nor an input of the model. The code of
            the enclosing layer has computed them.
        containers: Outer calls that return the same array, each with the number of the output.
    """

    number: int
    call: LayerCall
    index: int
    sources: tuple[int, ...]
    tolerance: float
    loose_inputs: tuple[Array, ...] = ()
    containers: tuple[tuple[LayerCall, int], ...] = ()

    @property
    def array(self) -> Array:
        """Keras' output."""
        return self.call.outputs[self.index]

    @property
    def layer(self) -> str:
        """The layer's path, without the number of the call."""
        return self.call.layer_path

    @property
    def calls(self) -> tuple[tuple[LayerCall, int], ...]:
        """All calls that return the array, each with the number of the output; the innermost first."""
        return ((self.call, self.index), *self.containers)

    def as_of(self, call: LayerCall, index: int) -> "RecordedOutput":
        """Returns the output as an output of one of its `calls`."""
        is_own = call is self.call
        loose = self.loose_inputs if is_own or call.depth > 1 else ()
        return replace(self, call=call, index=index, loose_inputs=loose)


def calls_of(probe: Probe, model: Any, inputs: Mapping[str, Array]) -> list[LayerCall]:
    """Returns a model's calls of its layers in one case, which are recorded once in a diagnosis."""
    return probe.once(_calls_of, probe.reference, model, inputs)


def _calls_of(reference: KerasReference, model: Any, inputs: Mapping[str, Array]) -> list[LayerCall]:
    with state_left_alone(), loops_as_graphs():
        return record_calls(model, lambda: reference.predict(model, inputs))


def _tensors_of(runner: Runner, inputs: Mapping[str, Array]) -> Tensors:
    return Tensors({**inputs, **runner.intermediates(inputs, {})})


def _tolerance(output: Array, truth: LayerCall | None, index: int) -> float:
    if truth is None or index >= len(truth.outputs) or truth.outputs[index].shape != output.shape:
        return _SLACK * STRICT.flat_tolerance(output)
    return _SLACK * MAX_FACTOR * noise_floor(output, truth.outputs[index])


def content_key(array: Array) -> bytes:
    """Returns a hash of an array's values, shape and type."""
    values = np.ascontiguousarray(array)
    return hashlib.sha256(repr((values.shape, values.dtype.name)).encode() + values.tobytes()).digest()


def _given_values(call: LayerCall) -> set[Any]:
    """Returns the numbers among the arguments of a call, and the keys of its arrays."""
    import keras

    return {*map(content_key, call.inputs), *filter(is_number, keras.tree.flatten((call.arguments, call.keywords)))}


class RecordedCase:
    """Keras' calls and outputs in one case, recorded on first use.

    Args:
        probe: The runtime.
        reference: The model.
        expectation: The case.
    """

    def __init__(self, probe: Probe, reference: KerasReference, expectation: Expectation) -> None:
        self.probe, self.reference, self.expectation = probe, reference, expectation
        self.inputs = expectation.case.inputs
        self.keras_model = reference.model if expectation.in_float32 is None else reference.float32_model

    @cached_property
    def calls(self) -> list[LayerCall]:
        """The calls of the layers."""
        self.probe.budget.check()
        return calls_of(self.probe, self.keras_model, self.inputs)

    @cached_property
    def outputs(self) -> list[RecordedOutput]:
        """The floating-point outputs of every layer, in the order of computation.

        An output that equals an input of its layer (a dropout, a container whose last layer already has it) is left
        out. The values of an input identify its source, so the path through intermediate operations does not matter.
        Two layers with equal outputs are both sources.
        """
        outputs: list[RecordedOutput] = []
        given = {content_key(array) for array in self.inputs.values()}
        made_by: dict[bytes, list[int]] = {}
        for call, truth in zip(self.calls, self._truths(), strict=True):
            keys = [content_key(array) for array in call.inputs]
            known = given | made_by.keys()
            loose = tuple(
                x for x, key in zip(call.inputs, keys, strict=True) if is_float(x.dtype) and x.size and key not in known
            )
            own = tuple(dict.fromkeys(number for key in keys for number in made_by.get(key, ())))
            handed = given | set(keys)
            for index, output in enumerate(call.outputs):
                key = content_key(output)
                inner = [n for n in made_by.get(key, ()) if is_inside(outputs[n].call.path, call.path)]
                for number in inner:
                    outputs[number] = replace(outputs[number], containers=(*outputs[number].containers, (call, index)))
                if inner or key in handed or not is_float(output.dtype) or not output.size:
                    continue
                handed.add(key)  # a layer may return an array twice
                made_by.setdefault(key, []).append(len(outputs))
                tolerance = _tolerance(output, truth, index)
                outputs.append(RecordedOutput(len(outputs), call, index, own, tolerance, loose))
        return outputs

    @cached_property
    def makers(self) -> dict[bytes, LayerCall]:
        """The first call that returned each array alone, by the array's key, without the inputs of the model.

        A cast or a reshape of an array has the maker of that array.
        """
        made: dict[bytes, LayerCall] = {}
        for call in self.calls:
            if len(call.outputs) == 1:
                before = made.get(content_key(call.inputs[0])) if _only_recasts(call) else None
                made.setdefault(content_key(call.outputs[0]), before or call)
        given = {content_key(array) for array in self.inputs.values()}
        return {key: call for key, call in made.items() if key not in given}

    def makers_of(self, call: LayerCall) -> dict[int, LayerCall]:
        """Returns the calls that returned the inputs of a call, by the number of the input."""
        keys = enumerate(map(content_key, call.inputs))
        return {number: self.makers[key] for number, key in keys if key in self.makers}

    def code_before(self, call: LayerCall) -> LayerCall | None:
        """Returns the code of a user's layer up to a call, as a call; None if no user's layer makes it.

        The layer is the innermost one that does not pass its own inputs on to the call.
        """
        place, given = next(number for number, each in enumerate(self.calls) if each is call), _given_values(call)
        around = (each for each in self.calls[place:] if is_inside(call.layer_path, each.layer_path))
        users = (each for each in around if is_users_module(type(each.layer).__module__))
        outer = next((each for each in users if not given <= _given_values(each)), None)
        if outer is None:
            return None
        before = [number for number, each in enumerate(self.calls[:place]) if each.layer is outer.layer]
        number = sum(each.layer is call.layer for each in self.calls[max(before, default=0) : place])
        layer = CodeBefore(outer.layer, call.layer, number)
        return replace(outer, path=call.path, layer=layer, outputs=call.outputs)

    def run_inside(self, replaced: Mapping[str, Array]) -> Tensors:
        """Returns the artifact's tensors, with some replaced."""
        self.probe.budget.check()
        if not replaced:
            return self.probe.once(_tensors_of, self.probe.runner, self.inputs)
        return Tensors({**self.inputs, **self.probe.runner.intermediates(self.inputs, replaced)})

    def outputs_after(self, output: RecordedOutput, array: Array) -> Arrays:
        """Returns Keras' outputs if a layer's output is another array."""
        self.probe.budget.check()
        replaced = replaced_output(self.keras_model, output.call.path, output.index, array)
        with state_left_alone(), loops_as_graphs(), replaced:
            return self.reference.predict(self.keras_model, self.inputs)

    def _truths(self) -> list[LayerCall | None]:
        """Returns the float64 call for each call, by order, since operations may have other names in the rebuild."""
        if self.reference.float64_model is None:
            return [None] * len(self.calls)
        with float64_allowed(np.random.default_rng(0)):
            wide = calls_of(self.probe, self.reference.float64_model, self.inputs)
        if [type(call.layer) for call in self.calls] == [type(call.layer) for call in wide]:
            return list(wide)
        by_path = {call.path: call for call in wide}
        return [by_path.get(call.path) for call in self.calls]


def _only_recasts(call: LayerCall) -> bool:
    """Whether a call returns the values of its only input in order, with another dtype or shape."""
    if len(call.inputs) != 1:
        return False
    given, returned = call.inputs[0], call.outputs[0]
    is_other = (given.dtype, given.shape) != (returned.dtype, returned.shape)
    return is_other and np.array_equal(given.ravel(), returned.ravel())
