"""Detects a state that an artifact reads, returns, keeps or begins otherwise than the model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.streams import Run, Stream
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.state_edits import Change, StateEdit, quote_names, rounded_states, state_edits
from keras_pe.export.progress import Budget
from keras_pe.export.results import Array, Cause, Comparison, Finding
from keras_pe.export.runtimes.runtime import Arrays

_REST = 0.02  # share of the difference that may remain after an explanation
_SLACK = 2.0  # factor on the tolerance of outputs that agree
_CASES = 3  # number of failed cases that an explanation must fit
_Outputs = TypeVar("_Outputs", Arrays, Arrays | None)


def state_at_fault(probe: Probe) -> Iterator[Finding]:
    """Detects a state that a single call reads or returns with other values."""
    states, cases = probe.reference.states, failed_cases(probe)
    if not states or not cases:
        return
    carried = {each.input: each.output for each in states}
    wrong = {each.output for each in cases[0].compared if not each.passed}
    edits = [*state_edits(states, [case.inputs for case in cases], wrong)]
    for edit in edits:
        if all(_is_returned(case, carried, edit) for case in cases):
            yield _finding(edit, "returns", carried)
            return
    for edit in (*edits, *rounded_states(states, cases[0].inputs)):
        probe.budget.check()
        found = map(_run_with_edit(probe.expect, edit), (case.inputs for case in cases))
        if all(each is not None and explains(case, each) for case, each in zip(cases, found, strict=True)):
            yield _finding(edit, "reads", carried)
            return


def failed_cases(probe: Probe) -> list["FailedCase"]:
    """Returns the failed cases that an explanation must fit, those with most rows first."""
    failing = sorted(probe.failing(), key=lambda each: -max(len(a) for a in each[1].case.inputs.values() if a.ndim))
    return [
        FailedCase(case.comparisons, expectation.case.inputs, expectation.outputs or {}, answer)
        for case, expectation, answer in failing[:_CASES]
    ]


def stream_at_fault(
    failed: "FailedStream", expect: Run, states: Sequence[State], own: Mapping[str, Array], before: Mapping[str, Array]
) -> Finding | None:
    """Returns the finding for a sequence that differs although single calls agree; None without an explanation.

    Args:
        failed: The sequence.
        expect: Makes one call of the reference.
        states: The states.
        own: The states that the artifact itself records for the first call, if they differ from the reference's.
        before: The states at the end of the calls before; empty if unknown.

    Raises:
        OutOfTimeError: If the time of the diagnosis is over.
    """
    carried = {each.input: each.output for each in states}
    if own and failed.is_explained_by(expect, own):
        description = f"Its record begins {quote_names(own)} with other values than the model has."
        return Finding(Cause.WRONG_INITIAL_STATE, description, output=carried[next(iter(own))])
    if before and failed.is_explained_by(expect, before):
        description = f"The sequence begins {quote_names(before)} with the values at the end of the calls before."
        return Finding(Cause.STATE_NOT_RESET, description, output=carried[next(iter(before))])
    if failed.is_explained_by(_Late(expect, carried)):
        description = f"Each call reads {quote_names(carried)} from the call before the last."
        return Finding(Cause.STATE_NOT_CARRIED, description, output=states[0].output)
    inputs = failed.case.inputs
    wrong = {each.output for each in failed.case.compared if not each.passed}
    for edit in (*state_edits(states, [inputs], wrong), *rounded_states(states, inputs)):
        if failed.is_explained_by(_run_with_edit(expect, edit)):
            return _finding(edit, "reads", carried)
    return None


@dataclass(frozen=True)
class FailedCase:
    """A failed case: the comparisons of its outputs, its inputs, and the outputs of both sides."""

    compared: Sequence[Comparison]
    inputs: Mapping[str, Array]
    expected: Arrays
    actual: Arrays

    def allowed_distance(self, compared: Comparison) -> float:
        """Returns the largest distance from the artifact's output that an explanation may leave."""
        was = distance(self.actual[compared.output], self.expected[compared.output])
        return max(_SLACK * compared.tolerance, _REST * was)


class FailedStream:
    """A sequence of calls that differs although single calls agree.

    Attributes:
        case: The sequence as one case.
    """

    def __init__(
        self, stream: Stream, compared: Sequence[Comparison], calls: Sequence[Arrays], actual: Arrays, budget: Budget
    ) -> None:
        """Takes the sequence, its comparisons, the outputs of the artifact by call and joined, and the time limit."""
        expected = stream.expectation.outputs or {}
        self.case = FailedCase(compared, stream.expectation.case.inputs, expected, actual)
        self._allowed = {each.output: self.case.allowed_distance(each) for each in compared if each.output in actual}
        self._stream, self._calls, self._budget = stream, calls, budget

    def is_explained_by(self, run: Run, first: Mapping[str, Array] | None = None) -> bool:
        """Returns whether calls explain the outputs of the artifact. The first call that does not fit ends them.

        Args:
            run: Makes one call.
            first: Other states before the first call, by input.

        Raises:
            OutOfTimeError: If the time of the diagnosis is over.
        """
        calls = iter(self._calls)

        def run_while_it_fits(inputs: Mapping[str, Array]) -> Arrays:
            self._budget.check()
            found = run(inputs)
            if not self._fits(inputs, found, next(calls)):
                raise _DoesNotFitError
            return found

        try:
            return explains(self.case, self._stream.answer(run_while_it_fits, first))
        except (RuntimeFailedError, _DoesNotFitError):
            return False

    def _fits(self, inputs: Mapping[str, Array], found: Arrays, actual: Arrays) -> bool:
        """Returns whether the outputs of one call are as near to the artifact's as those of an explanation."""
        padding, states = self._stream.chunks.padding, self._stream.chunks.carried.values()
        for name, allowed in self._allowed.items():
            if name not in actual or name not in found:
                return False
            one, other = actual[name], found[name]
            if padding is not None:  # it enters the states, and its own outputs have no meaning
                if name in states or one.shape != other.shape:
                    continue
                other = np.where(inputs[padding][:, -one.shape[1] :, None] > 0, other, one)
            if distance(one, other) > allowed:
                return False
        return True


class _DoesNotFitError(Exception):
    """A call does not return the outputs of the artifact."""


class _Late:
    """Makes calls of the reference with the states of the call before the last."""

    def __init__(self, expect: Run, states: Mapping[str, str]) -> None:
        self._expect, self._states = expect, states
        self._last: Mapping[str, Array] = {}

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        last, self._last = self._last, {name: inputs[name] for name in self._states}
        return self._expect({**inputs, **last})


def _run_with_edit(expect: Callable[..., _Outputs], edit: StateEdit) -> Callable[[Mapping[str, Array]], _Outputs]:
    """Returns a function that makes one call of the reference with changed states."""

    def run(inputs: Mapping[str, Array]) -> _Outputs:
        states = {name: inputs[name] for name in edit.states}
        return expect({**inputs, **edit.change(states, {})})

    return run


def _is_returned(case: FailedCase, carried: Mapping[str, str], edit: StateEdit) -> bool:
    """Returns whether an artifact returns the expected outputs, but changed states."""
    if not all(output in case.expected and output in case.actual for output in carried.values()):
        return False
    expected = {name: case.expected[output] for name, output in carried.items()}
    actual = {name: case.actual[output] for name, output in carried.items()}
    unchanged = {name: case.inputs[name] for name in edit.states}
    changes: list[Change] = [edit.change]
    if edit.cause is Cause.STATE_NOT_CARRIED:
        changes.append(lambda values, _: {**values, **unchanged})
    for change in changes:
        found = change(expected, actual)
        if explains(case, {**case.expected, **{carried[name]: array for name, array in found.items()}}):
            return True
    return False


def explains(case: FailedCase, found: Arrays) -> bool:
    """Returns whether outputs explain those of an artifact: they agree where the expected outputs do not."""
    is_moved = False
    for each in case.compared:
        name = each.output
        if name not in found or name not in case.actual or found[name].shape != case.actual[name].shape:
            return False
        was, now = distance(case.actual[name], case.expected[name]), distance(case.actual[name], found[name])
        if now > case.allowed_distance(each) or (not each.passed and now >= was / 2):
            return False
        is_moved |= not each.passed
    return is_moved


def _finding(edit: StateEdit, verb: str, carried: Mapping[str, str]) -> Finding:
    return Finding(edit.cause, edit.description.format(verb), output=carried[edit.states[0]])
