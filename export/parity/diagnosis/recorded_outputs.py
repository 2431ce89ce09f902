"""What every layer of the model returns in one case, and how far a runtime may be from it."""

import hashlib
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.comparison.law import MAX_FACTOR, STRICT, is_float, noise_floor
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.model.rebuild import float64_allowed
from keras_pe.export.model.watch.recording import LayerCall, record_calls, state_left_alone
from keras_pe.export.results import Array

_SLACK = 2.0  # Over what outputs are allowed: a layer's own noise is that of one run, and proves nothing by itself.


@dataclass(frozen=True)
class RecordedOutput:
    """One output of one call of a layer.

    Attributes:
        number: Its place in the order of computation.
        call: The call.
        index: Which of the call's outputs it is.
        sources: The numbers of the outputs that the layer was given.
        tolerance: How far a runtime may be from it.
        loose_inputs: Floating-point arrays that the layer was given and no output or input of the model is: what the
            layer around it has computed by itself.
        containers: Outer calls that return the very same, and which of their outputs it is.
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
        """What Keras returned."""
        return self.call.outputs[self.index]


def record_outputs(reference: KerasReference, expectation: Expectation) -> list[RecordedOutput]:
    """Returns the floating-point outputs of every layer in one case, in the order of computation.

    What only hands on its input (a dropout, a container whose last layer has it already) is left out. A layer's
    inputs are recognized by their values, so nothing is lost on the way from one to the next; two layers that return
    the same are both a source of what is given it.
    """
    model = reference.float32_model if expectation.in_float32 is not None else reference.model
    inputs = expectation.case.inputs
    calls = _record(reference, model, inputs)
    wide = _record(reference, reference.float64_model, inputs) if reference.float64_model is not None else []
    truths = _aligned(calls, wide)
    outputs: list[RecordedOutput] = []
    given = {content_key(array) for array in inputs.values()}
    made_by: dict[bytes, list[int]] = {}
    for call, truth in zip(calls, truths, strict=True):
        keys = [content_key(array) for array in call.inputs]
        known = given | made_by.keys()
        loose = tuple(
            x for x, key in zip(call.inputs, keys, strict=True) if is_float(x.dtype) and x.size and key not in known
        )
        own = tuple(dict.fromkeys(number for key in keys for number in made_by.get(key, ())))
        handed = given | set(keys)
        for index, output in enumerate(call.outputs):
            key = content_key(output)
            inner = [n for n in made_by.get(key, ()) if outputs[n].call.path.startswith(f"{call.path}/")]
            for number in inner:
                outputs[number] = replace(outputs[number], containers=(*outputs[number].containers, (call, index)))
            if inner or key in handed or not is_float(output.dtype) or not output.size:
                continue
            handed.add(key)  # a layer may return the same twice
            made_by.setdefault(key, []).append(len(outputs))
            outputs.append(RecordedOutput(len(outputs), call, index, own, _tolerance(output, truth, index), loose))
    return outputs


def _record(reference: KerasReference, model: Any, inputs: Mapping[str, Array]) -> list[LayerCall]:
    is_wide = model is reference.float64_model
    with state_left_alone(), float64_allowed(np.random.default_rng(0)) if is_wide else nullcontext():
        return record_calls(model, lambda: reference.predict(model, inputs))


def _aligned(calls: list[LayerCall], wide: list[LayerCall]) -> list[LayerCall | None]:
    """Returns the float64 call of each call: the one in its place, for an operation may have got another name."""
    if [type(call.layer) for call in calls] == [type(call.layer) for call in wide]:
        return list(wide)
    by_path = {call.path: call for call in wide}
    return [by_path.get(call.path) for call in calls]


def _tolerance(output: Array, truth: LayerCall | None, index: int) -> float:
    if truth is None or index >= len(truth.outputs) or truth.outputs[index].shape != output.shape:
        return _SLACK * STRICT.flat_tolerance(output)
    return _SLACK * MAX_FACTOR * noise_floor(output, truth.outputs[index])


def content_key(array: Array) -> bytes:
    """Returns a short stand-in for an array's values."""
    values = np.ascontiguousarray(array)
    return hashlib.sha256(repr((values.shape, values.dtype.name)).encode() + values.tobytes()).digest()
