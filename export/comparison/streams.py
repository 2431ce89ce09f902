"""Sequences in chunks for an artifact with a state: each call begins with the state that the last call returned."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.sweep import draw_case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays

_CHUNKS = {"step by step": (1,) * 9, "chunks of uneven length": (4, 1, 7, 2)}
_ROWS = 3
_SEED = 0

Run = Callable[[Mapping[str, Array]], Arrays]


@dataclass(frozen=True)
class Stream:
    """A sequence in chunks.

    Attributes:
        expectation: The whole inputs with the first state, and the reference's outputs of all chunks.
        chunks: The length of each chunk.
        axes: The axis of each input that is cut. Without any, each call takes the whole inputs.
        states: The states that go from call to call.
    """

    expectation: Expectation
    chunks: tuple[int, ...]
    axes: Mapping[str, int]
    states: Sequence[State]

    def answer(self, run: Run) -> Arrays:
        """Returns every output and state of all calls, by name, with the calls joined.

        Raises:
            RuntimeFailedError: If a call fails.
        """
        inputs, start, calls = dict(self.expectation.case.inputs), 0, list[Arrays]()
        state = {each.input: inputs[each.input] for each in self.states}
        for size in self.chunks:
            part = {name: _cut(inputs[name], axis, start, size) for name, axis in self.axes.items()}
            outputs = run({**inputs, **part, **state})
            state = {each.input: outputs[each.output] for each in self.states}
            calls.append(outputs)
            start += size
        return {name: _join([each[name] for each in calls]) for name in calls[0]}


def expected_streams(reference: Reference) -> Iterator[Stream]:
    """Yields the streams of a reference with a state, with the reference's answers in its own precision and in float64.

    A stream that the reference refuses is left out.
    """
    carried = {each.input for each in reference.states}
    inputs = tuple(spec for spec in reference.inputs if spec.name not in carried)
    if not carried or not inputs:
        return
    dimensions = reference.dimensions
    cut = next((dim for spec in inputs for dim in spec.shape[1:] if isinstance(dim, str)), None)
    axes = {spec.name: spec.shape.index(cut) for spec in inputs if cut in spec.shape} if cut else {}
    for name, wanted in _CHUNKS.items():
        chunks = tuple(dimensions[cut].sizes.near(size) for size in wanted) if cut else wanted
        sizes = {dim: each.sizes.near(_ROWS) for dim, each in dimensions.items()}
        sizes |= {cut: sum(chunks)} if cut else {}
        try:
            arrays = draw_case(inputs, reference.roles, sizes, _SEED)
            first = {each.input: each.start(_batch(each, sizes)) for each in reference.states}
        except ValueError:  # the first rows differ, and this is not their number
            continue
        case = Case(name, {**arrays, **first}, "the state goes from call to call", sizes)
        stream = Stream(Expectation(case, None), chunks, axes, reference.states)
        try:
            outputs = stream.answer(reference.expect)
            truth = stream.answer(lambda given: _wide(reference, given))
        except RuntimeFailedError:
            continue
        floats = {key: array for key, array in truth.items() if array.dtype == np.float64}
        yield Stream(Expectation(case, outputs, floats or None), chunks, axes, reference.states)


def _batch(state: State, sizes: Mapping[str, int]) -> int:
    dim = state.shape[0] if state.shape else 1
    return sizes[dim] if isinstance(dim, str) else dim


def _wide(reference: Reference, given: Mapping[str, Array]) -> Arrays:
    """Returns the outputs in float64 as far as they exist. States of integers come from the model itself."""
    types = {spec.name: spec.dtype for spec in reference.inputs}
    narrow = {name: array.astype(types[name]) if array.dtype == "float64" else array for name, array in given.items()}
    return {**reference.expect(narrow), **reference.truth(given)}


def _cut(array: Array, axis: int, start: int, size: int) -> Array:
    return array[(*[slice(None)] * axis, slice(start, start + size))]


def _join(parts: Sequence[Array]) -> Array:
    """Returns the arrays along the axis in which their sizes differ, or else along a new first axis."""
    shapes = zip(*(part.shape for part in parts), strict=True)
    axes = [axis for axis, sizes in enumerate(shapes) if len(set(sizes)) > 1]
    return np.concatenate(parts, axes[0]) if axes else np.stack(parts)
