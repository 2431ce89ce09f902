"""Detects a state that an artifact reads, returns, keeps or begins otherwise than the model."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.streams import Run, Stream
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.results import Array, Cause, Comparison, Finding
from keras_pe.export.runtimes.runtime import Arrays

_SHIFTS = (1, -1, 2, -2)
_REST = 0.02  # share of the difference that may remain after an explanation
_SLACK = 2.0  # factor on the tolerance of outputs that agree
_CASES = 3  # number of failed cases that an explanation must fit

Change = Callable[[Mapping[str, Array], Mapping[str, Array]], Arrays]
"""Returns the changed states by input, from the states, and from values at places that the change leaves free."""


@dataclass(frozen=True)
class _Edit:
    """A change of the states of a call.

    Attributes:
        cause: The cause if the change explains an artifact.
        description: The sentence about the change, with `{}` for the verb.
        states: The inputs of the changed states.
        change: The change.
    """

    cause: Cause
    description: str
    states: tuple[str, ...]
    change: Change


def state_at_fault(probe: Probe) -> Iterator[Finding]:
    """Detects a state that a single call reads or returns with other values."""
    states, cases = probe.reference.states, failed_cases(probe)
    if not states or not cases:
        return
    carried = {each.input: each.output for each in states}
    for edit in _edits(states, [case.inputs for case in cases]):
        if all(_is_returned(case, carried, edit) for case in cases):
            yield _finding(edit, "returns", carried)
            return
    for edit in _edits(states, [case.inputs for case in cases]):
        probe.budget.check()
        if all(_is_read(case, carried, edit, probe.expect) for case in cases):
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
    stream: Stream,
    compared: Sequence[Comparison],
    actual: Arrays,
    expect: Run,
    states: Sequence[State],
    own: Mapping[str, Array],
    before: Mapping[str, Array],
) -> Finding | None:
    """Returns the finding for a sequence that differs although single calls agree; None without an explanation.

    Args:
        stream: The sequence.
        compared: The comparisons of its outputs.
        actual: The outputs of the artifact.
        expect: Makes one call of the reference.
        states: The states.
        own: The states that the artifact itself records for the first call, if they differ from the reference's.
        before: The states at the end of the calls before; empty if unknown.
    """
    case = FailedCase(compared, stream.expectation.case.inputs, stream.expectation.outputs or {}, actual)
    carried = {each.input: each.output for each in states}

    def fits(run: Run, first: Mapping[str, Array] | None = None) -> bool:
        try:
            return explains(case, stream.answer(run, first))
        except RuntimeFailedError:
            return False

    if own and fits(expect, own):
        description = f"Its record begins {_quote_names(own)} with other values than the model has."
        return Finding(Cause.WRONG_INITIAL_STATE, description, output=carried[next(iter(own))])
    if before and fits(expect, before):
        description = f"The sequence begins {_quote_names(before)} with the values at the end of the calls before."
        return Finding(Cause.STATE_NOT_RESET, description, output=carried[next(iter(before))])
    late = _Late(expect, carried)
    if fits(late):
        description = f"Each call reads {_quote_names(carried)} from the call before the last."
        return Finding(Cause.STATE_NOT_CARRIED, description, output=states[0].output)
    for edit in _edits(states, [case.inputs]):
        if fits(_run_with_edit(expect, edit)):
            return _finding(edit, "reads", carried)
    return None


@dataclass(frozen=True)
class FailedCase:
    """A failed case: the comparisons of its outputs, its inputs, and the outputs of both sides."""

    compared: Sequence[Comparison]
    inputs: Mapping[str, Array]
    expected: Arrays
    actual: Arrays


class _Late:
    """Makes calls of the reference with the states of the call before the last."""

    def __init__(self, expect: Run, states: Mapping[str, str]) -> None:
        self._expect, self._states = expect, states
        self._last: Mapping[str, Array] = {}

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        last, self._last = self._last, {name: inputs[name] for name in self._states}
        return self._expect({**inputs, **last})


def _edits(states: Sequence[State], cases: Sequence[Mapping[str, Array]]) -> Iterator[_Edit]:
    """Yields the changes of states, the change of all states before the change of one.

    Args:
        states: The states.
        cases: The inputs of each case, the case with most rows first. A cache may have another length in each.
    """
    inputs = cases[0]
    every = tuple(each.input for each in states)
    groups = [every, *((name,) for name in every if len(every) > 1)]
    rows = [tuple(s.input for s in states if s.input in group and _has_rows(s, inputs)) for group in groups]
    for names in dict.fromkeys(filter(None, rows)):
        for description, order in _ORDERS.items():
            change = _each(names, lambda array, _, order=order: array[order(len(array))])  # type: ignore[misc]
            yield _Edit(Cause.STATE_OF_ANOTHER_ROW, f"It {{}} {_quote_names(names)} with {description}.", names, change)
    for one, other in itertools.combinations(every, 2):
        if inputs[one].shape == inputs[other].shape and inputs[one].dtype == inputs[other].dtype:
            change = _exchange(one, other)
            yield _Edit(Cause.EXCHANGED_STATES, f"It {{}} {one!r} and {other!r} exchanged.", (one, other), change)
    for names in groups:
        description = f"It {{}} {_quote_names(names)} as before the first call."
        start = {s.input: s for s in states if s.input in names}
        yield _Edit(Cause.STATE_NOT_CARRIED, description, names, _restart(start))
    for names in groups:
        are_alike = len({inputs[name].shape for name in names}) == 1
        has_rows = any(_has_rows(each, inputs) for each in states if each.input in names)
        shapes = [case[names[0]].shape for case in cases] if are_alike else []
        for axis, size in enumerate(map(max, zip(*shapes, strict=True))):
            for steps in () if axis == 0 and has_rows else (each for each in _SHIFTS if abs(each) < size):
                description = f"It {{}} {_quote_names(names)} shifted by {steps} along axis {axis}."
                yield _Edit(Cause.SHIFTED_STATE, description, names, _shift(names, axis, steps))


def _has_rows(state: State, inputs: Mapping[str, Array]) -> bool:
    """Returns whether the first axis of a state is the batch, with several rows."""
    array = inputs[state.input]
    others = [each for name, each in inputs.items() if name != state.input and each.ndim]
    return array.ndim > 0 and len(array) > 1 and any(len(each) == len(array) for each in others)


_ORDERS: Mapping[str, Callable[[int], Array]] = {
    "its rows moved by 1": lambda rows: np.roll(np.arange(rows), 1),
    "its rows moved by -1": lambda rows: np.roll(np.arange(rows), -1),
    "its rows reversed": lambda rows: np.arange(rows)[::-1],
    "its first row in every row": lambda rows: np.zeros(rows, np.int64),
    "its last row in every row": lambda rows: np.full(rows, rows - 1),
}
"""The rows that a file may read instead of its own rows, from the number of rows."""


def _each(names: Sequence[str], change: Callable[[Array, Array | None], Array]) -> Change:
    return lambda values, free: {**values, **{name: change(values[name], free.get(name)) for name in names}}


def _exchange(one: str, other: str) -> Change:
    return lambda values, _: {**values, one: values[other], other: values[one]}


def _restart(states: Mapping[str, State]) -> Change:
    def start(values: Mapping[str, Array], _: Mapping[str, Array]) -> Arrays:
        own = {name: state.start(len(values[name]) if values[name].ndim else 1) for name, state in states.items()}
        return {**values, **own}

    return start


def _shift(names: Sequence[str], axis: int, steps: int) -> Change:
    """Returns a shift. The places without a value are zero, unless they are free."""

    def shift(array: Array, free: Array | None) -> Array:
        moved = np.roll(array, steps, axis)
        edge = (*[slice(None)] * axis, slice(None, steps) if steps > 0 else slice(steps, None))
        moved[edge] = 0 if free is None or free.shape != array.shape else free[edge]
        return moved

    return _each(names, shift)


def _run_with_edit(expect: Run, edit: _Edit) -> Run:
    def run(inputs: Mapping[str, Array]) -> Arrays:
        states = {name: inputs[name] for name in edit.states}
        return expect({**inputs, **edit.change(states, {})})

    return run


def _is_read(case: FailedCase, carried: Mapping[str, str], edit: _Edit, expect: Callable[..., Arrays | None]) -> bool:
    states = {name: case.inputs[name] for name in carried}
    found = expect({**case.inputs, **edit.change(states, {})})
    return found is not None and explains(case, found)


def _is_returned(case: FailedCase, carried: Mapping[str, str], edit: _Edit) -> bool:
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
        if now > max(_SLACK * each.tolerance, _REST * was) or (not each.passed and now >= was / 2):
            return False
        is_moved |= not each.passed
    return is_moved


def _finding(edit: _Edit, verb: str, carried: Mapping[str, str]) -> Finding:
    return Finding(edit.cause, edit.description.format(verb), output=carried[edit.states[0]])


def _quote_names(names: Sequence[str] | Mapping[str, object]) -> str:
    quoted = [repr(name) for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
