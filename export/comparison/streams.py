"""Sequences in chunks for an artifact with a state: each call receives the state from the previous call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.chunked_calls import ignore_padding, run_in_chunks
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.sweep import draw_case
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.results import Array, Chunks
from keras_pe.export.runtimes.runtime import Arrays


class _Padding(Enum):
    """The padding of a prompt in the first call. Row K has 2 K columns of padding."""

    NONE = "none"
    LEFT = "left"
    RIGHT = "right"


_Plan = tuple[str, tuple[int, ...], _Padding]
"""The name of a stream, the length of each call, and the padding."""

_PLANS: tuple[_Plan, ...] = (
    ("step by step", (1,) * 9, _Padding.NONE),
    ("chunks of uneven length", (4, 1, 7, 2), _Padding.NONE),
)
_PLANS_OF_CACHES: tuple[_Plan, ...] = (
    ("prompt, then token by token", (13, *(1,) * 8), _Padding.NONE),
    ("chunks of uneven length", (4, 1, 7, 2), _Padding.NONE),
    ("prompts padded at the right", (6, *(1,) * 8), _Padding.RIGHT),
    ("prompts padded at the left", (6, *(1,) * 8), _Padding.LEFT),
)
_ROWS = 3
_SPARE = 2  # the rows of a shared cache that stay unused
_SEED = 0

Run = Callable[[Mapping[str, Array]], Arrays]


@dataclass(frozen=True)
class Stream:
    """A sequence in chunks.

    Attributes:
        expectation: The whole inputs with the first state, and the reference's outputs of all chunks.
        chunks: The calls.
    """

    expectation: Expectation
    chunks: Chunks

    def answer(self, run: Run, first: Mapping[str, Array] | None = None) -> Arrays:
        """Returns every output and state of all calls, by name, with the calls joined.

        Values that are not compared are those of the reference.

        Args:
            run: Makes one call.
            first: Other states before the first call, by input.

        Raises:
            RuntimeFailedError: If a call fails.
        """
        inputs, chunks = {**self.expectation.case.inputs, **(first or {})}, self.chunks
        found = run_in_chunks(run, inputs, chunks.sizes, chunks.axes, chunks.carried, chunks.growing)
        expected = self.expectation.outputs
        if expected is None or chunks.padding is None:
            return found
        return dict(ignore_padding(found, expected, inputs[chunks.padding], chunks.carried))


def expected_streams(reference: Reference) -> Iterator[Stream]:
    """Yields the streams of a reference with a state, with the reference's answers in its own precision and in float64.

    A recurrent state begins at zero, as after `reset_state`. A stream that the reference refuses is left out. The
    logits of a decoder are those of whole calls without its cache.
    """
    carried = {each.input: each.output for each in reference.states}
    inputs = tuple(spec for spec in reference.inputs if spec.name not in carried)
    if not carried or not inputs:
        return
    dimensions = reference.dimensions
    cut, axes = sequence_axis(inputs)
    totals = {name for name, own in dimensions.items() if cut in own.parts}
    growing = {spec.name: axis for spec in inputs for axis, dim in enumerate(spec.shape) if dim in totals}
    longest = next((each.shape[2] for each in reference.states if "input_pos" in axes), None)
    for name, wanted, padding in _PLANS_OF_CACHES if growing or longest else _PLANS:
        if padding is not _Padding.NONE and not growing:  # positions as inputs leave no place for padding
            continue
        sizes = tuple(dimensions[cut].sizes.near(size) for size in wanted) if cut else wanted
        sizes = sizes if longest is None else _cut_calls(sizes, int(longest))
        known = {dim: each.sizes.near(_ROWS) for dim, each in dimensions.items()}
        known |= dict.fromkeys([cut, *totals], sum(sizes)) if cut else {}
        try:
            arrays = draw_case(inputs, reference.roles, known, _SEED)
            first = first_states(reference.states, arrays, sum(sizes) + _SPARE)
        except ValueError:  # the first rows differ, and this is not their number
            continue
        arrays |= {each: _pad(arrays[each], padding, sizes[0]) for each in growing}
        arrays |= {each: np.arange(sum(sizes), dtype=arrays[each].dtype) for each in arrays if each == "input_pos"}
        mask = next((arrays[each] for each in growing), None)
        if mask is not None and "position_ids" in arrays:
            arrays["position_ids"] = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
        case = Case(name, {**arrays, **first}, "the state goes from call to call", known)
        has_open_values = mask is not None and not reference.model.has_values_at_padding
        masked = next(iter(growing)) if has_open_values else None
        stream = Stream(Expectation(case, None), Chunks(sizes, axes, carried, growing, masked))
        try:
            outputs = stream.answer(reference.expect)
            truth = stream.answer(lambda given: run_in_float64(reference, given))
            wide = None if reference.float32_model is None else stream.answer(reference.expect_in_float32)
            outputs, truth = ({**each, **_uncached_logits(reference, case, each)} for each in (outputs, truth))
        except RuntimeFailedError:
            continue
        floats = {key: array for key, array in truth.items() if array.dtype == np.float64}
        yield replace(stream, expectation=Expectation(case, outputs, floats or None, in_float32=wide))


def _cut_calls(sizes: Sequence[int], longest: int) -> tuple[int, ...]:
    """Returns the first calls, as many as a cache of this length has rows for."""
    return tuple(size for size, end in zip(sizes, accumulate(sizes), strict=True) if end <= longest)


def sequence_axis(inputs: Sequence[TensorInfo]) -> tuple[str | None, dict[str, int]]:
    """Returns the dimension of a sequence, which is the first free one after the batch, and its axis in each input.

    Without a free dimension, each call takes one step.
    """
    cut = next((dim for spec in inputs for dim in spec.shape[1:] if isinstance(dim, str)), None)
    return cut, {spec.name: spec.shape.index(cut) for spec in inputs if cut in spec.shape} if cut else {}


def _pad(mask: Array, padding: _Padding, prompt: int) -> Array:
    """Returns a mask of ones with zeros at the padding of a prompt."""
    found = np.ones_like(mask)
    for row in range(len(found) if padding is not _Padding.NONE else 0):
        count = min(2 * row, prompt - 1)
        start = 0 if padding is _Padding.LEFT else prompt - count
        found[row, start : start + count] = 0
    return found


def _uncached_logits(reference: Reference, case: Case, outputs: Arrays) -> Arrays:
    """Returns the logits of a decoder, with those of whole calls at each token; empty for another model.

    Padding keeps its logits, which have no meaning.
    """
    if not hasattr(reference.model, "call_uncached"):
        return {}
    tokens = case.inputs["tokens" if "tokens" in case.inputs else "input_ids"]
    mask = case.inputs["attention_mask"] > 0 if "attention_mask" in case.inputs else np.ones_like(tokens, bool)
    logits = outputs["logits"].copy()
    for row, kept in enumerate(mask):
        context = [case.inputs[name][row : row + 1] for name in reference.model.context_names]
        uncached = reference.expect_uncached(tokens[row, kept], context, is_wide=logits.dtype == np.float64)
        logits[row, kept] = uncached.reshape(logits[row, kept].shape)  # equal calls have an axis of their own
    return {"logits": logits}


def first_states(states: Sequence[State], inputs: Mapping[str, Array], length: int | None = None) -> dict[str, Array]:
    """Returns the states before the first call, by input, for some inputs of the model.

    Args:
        states: The states.
        inputs: Inputs of the model, which have the batch.
        length: The length of a shared cache.

    Raises:
        ValueError: If the rows of an initial state differ, and their number is not that of the inputs.
    """
    batch = next((len(array) for array in inputs.values() if array.ndim), 1)
    fresh = [replace(each, initial=0) if each.is_recurrent else each for each in states]
    return {each.input: each.start(batch, length) for each in fresh}


def run_in_float64(reference: Reference, given: Mapping[str, Array]) -> Arrays:
    """Returns the outputs in float64 as far as they exist. States of integers come from the model itself."""
    truth = reference.truth(given)
    if reference.signature is not None and {spec.name for spec in reference.signature.outputs} <= truth.keys():
        return truth
    types = {spec.name: spec.dtype for spec in reference.inputs}
    narrow = {name: array.astype(types[name]) if array.dtype == "float64" else array for name, array in given.items()}
    return {**reference.expect(narrow), **truth}
