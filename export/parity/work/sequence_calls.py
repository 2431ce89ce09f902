"""Runs each row of a data set as a sequence, for a model with a state: in chunks, with the state from call to call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.chunked_calls import run_in_chunks
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.streams import Run, first_states, sequence_axis
from keras_pe.export.model.sizes.dimensions import SizeRange
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays

_SHARES = (4, 1, 7)  # fourteenths of a sequence in the first calls; the last call takes the rest


@dataclass(frozen=True)
class SequenceCalls:
    """The division of a row into calls.

    Attributes:
        inputs: The inputs of a row: those of the model without the states. An input without a free length has one more
            axis, "steps", and each call takes one step.
        axes: The axis of each input that is cut.
        states: The states.
        lengths: The lengths that a call takes; None if each call takes one step.
    """

    inputs: tuple[TensorInfo, ...]
    axes: Mapping[str, int]
    states: Sequence[State]
    lengths: SizeRange | None

    @classmethod
    def find_calls(cls, reference: Reference) -> "SequenceCalls | None":
        """Returns the calls for a model; None if it has no state, or no input but states."""
        carried = {each.input for each in reference.states}
        inputs = tuple(spec for spec in reference.inputs if spec.name not in carried)
        if not carried or not inputs:
            return None
        cut, axes = sequence_axis(inputs)
        if cut is not None:
            return cls(inputs, axes, reference.states, reference.dimensions[cut].sizes)
        steps = tuple(replace(spec, shape=(*spec.shape[:1], "steps", *spec.shape[1:])) for spec in inputs)
        return cls(steps, {spec.name: 1 for spec in inputs}, reference.states, None)

    def split_into_calls(self, run: Run) -> Run:
        """Returns a function of rows: it makes the calls of all rows, and returns the outputs with the rows first.

        A sequence begins with the initial state. The new state is returned as after the last call.
        """

        def run_rows(inputs: Mapping[str, Array]) -> Arrays:
            name, axis = next(iter(self.axes.items()))
            sizes = self._sizes(inputs[name].shape[axis])
            carried = {each.input: each.output for each in self.states}
            with_rows = [each.output for each in self.states if self._has_rows(each, len(inputs[name]))]
            if self.lengths is not None and len(sizes) == 1:
                found = run(self.first_call(inputs))
                last = {output: found[output] for output in with_rows}
            else:
                given = {**inputs, **first_states(self.states, inputs)}
                found = run_in_chunks(lambda part: run(self._drop_steps_axis(part)), given, sizes, self.axes, carried)
                last = {output: found[output][:, -1] for output in with_rows}
            return {**{name: found[name] for name in found if name not in carried.values()}, **last}

        return run_rows

    def first_call(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the inputs of the first call for rows: the whole sequence, or its first step."""
        return {**self._drop_steps_axis(inputs), **first_states(self.states, inputs)}

    def _drop_steps_axis(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns inputs without the axis of steps, if each call takes one step."""
        steps = self.axes if self.lengths is None else {}
        return {name: array[:, 0] if name in steps else array for name, array in inputs.items()}

    def _has_rows(self, state: State, rows: int) -> bool:
        return bool(state.shape) and (isinstance(state.shape[0], str) or state.shape[0] == rows)

    def _sizes(self, length: int) -> tuple[int, ...]:
        """Returns the length of each call: uneven ones as far as the model takes them, or one call."""
        if self.lengths is None:
            return (1,) * length
        sizes, left = list[int](), length
        for share in _SHARES:
            size = self.lengths.near(max(1, length * share // 14))
            if left - size > 0 and size in self.lengths and left - size in self.lengths:
                sizes.append(size)
                left -= size
        sizes.append(left)
        if len({*sizes}) == 1 and len(sizes) > 2 and 2 * left in self.lengths:
            sizes[:2] = [2 * left]
        return (length,) if len({*sizes}) == 1 else (*sizes,)  # calls of equal length would not join along their axis
