"""Runs sequences in chunks through an artifact with a state, and adds the results to the verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.name_matching import cast_to_runtime_floats
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.run_cases import Run, compare_case, computes_in_float32
from keras_pe.export.comparison.streams import Stream, first_states
from keras_pe.export.comparison.tolerance import TolerancePolicy
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.causes.caches import cache_at_fault_in_stream
from keras_pe.export.parity.diagnosis.causes.states import FailedStream, stream_at_fault
from keras_pe.export.progress import Budget, OutOfTimeError
from keras_pe.export.results import Array, CaseResult, CaseStatus, Cause, Finding, Recording, RunStatus, RuntimeResult
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays


def with_streams(
    result: RuntimeResult,
    run: Run,
    runner: Runner,
    reference: Reference,
    streams: Sequence[Stream],
    policy: TolerancePolicy,
    budget: Callable[[], Budget],
) -> RuntimeResult:
    """Returns a result with a case for each stream.

    A stream begins with the states that the artifact records, or else with the reference's. An accepted precision has
    no streams: its effect is measured on single calls.

    Args:
        result: The verdict on single calls.
        run: The single calls.
        runner: The runtime, still loaded.
        reference: The reference of the differences.
        streams: The streams with the answers of the reference.
        policy: The tolerance policy.
        budget: Starts the time limit of the diagnosis.
    """
    if result.status is not RunStatus.COMPARED or policy.allowance.precision is not None:
        return result
    calls = _Calls(runner, run)
    is_sound = result.passed
    recorded = _recorded_states(result, reference) if streams else ()
    for stream in map(partial(_match_precision, runner), streams):
        given = stream.expectation.case.inputs
        own = _other_values(recorded, reference.states, given)
        before, kept = calls.made, calls.last_states(reference.states, given)
        calls.answers = []
        case, answer = _compare(stream, calls, own, policy)
        result = replace(result, cases=(*result.cases, case))
        if case.status is CaseStatus.FAILED and is_sound and result.passed:
            found = None
            message = f"Single calls agree. With the state from call to call ({case.name}), the artifact differs."
            if answer:
                failed = FailedStream(stream, case.comparisons, calls.answers, answer, budget())
                try:
                    found = stream_at_fault(failed, reference.expect, reference.states, own, kept)
                    found = found or cache_at_fault_in_stream(failed, reference)
                except OutOfTimeError as error:
                    message += f" The search for the cause was not finished: {error}."
            finding = found or Finding(Cause.UNKNOWN, case.error or message)
            if found is not None:
                finding = replace(found, evidence=f"{message} {found.evidence}")
            recording = _record(stream, own, answer, before)
            result = replace(result, passed=False, findings=(*result.findings, finding), recording=recording)
    return result


def _match_precision(runner: Runner, stream: Stream) -> Stream:
    """Returns a stream with the answers of the float32 rebuild only for a runtime that computes in float32."""
    expectation = stream.expectation
    if expectation.in_float32 is None or computes_in_float32(runner):
        return stream
    return replace(stream, expectation=replace(expectation, in_float32=None))


class _Calls:
    """Makes calls of a runtime, and remembers their inputs and the last outputs.

    Attributes:
        made: The inputs of the calls so far.
        answers: The outputs of the calls of one sequence.
    """

    def __init__(self, runner: Runner, run: Run) -> None:
        self._runner = runner
        self.answers = list[Arrays]()
        self.made: tuple[Mapping[str, Array], ...] = tuple(each.case.inputs for each in run.expectations)
        self._last: Arrays = next((each for each in reversed(run.answers) if each), {})

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        self._last = self._runner.run(cast_to_runtime_floats(self._runner, inputs, None))
        self.made = (*self.made, inputs)
        self.answers.append(self._last)
        return self._last

    def last_states(self, states: Sequence[State], inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the states that the last call returned; empty if they do not fit the inputs of the next call."""
        found = {each.input: self._last[each.output] for each in states if each.output in self._last}
        fits = len(found) == len(states) and all(array.shape == inputs[name].shape for name, array in found.items())
        return found if fits else {}


def _recorded_states(result: RuntimeResult, reference: Reference) -> tuple[State, ...]:
    """Returns the states that the metadata of an artifact record under the names of the reference."""
    try:
        found = read_artifact(Path(result.artifact)).states if result.artifact else ()
    except (ValueError, OSError, ImportError):  # another exporter's file, or an unreadable one
        return ()
    known = {each.input for each in reference.states}
    return tuple(each for each in found if each.input in known)


def _other_values(recorded: Sequence[State], states: Sequence[State], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the recorded states before the first call that differ from the reference's, by input.

    A file that was exported between two calls has the values of a recurrent state at that time, which is right.
    """
    now = {each.input: each for each in states}
    plain = {each.input: inputs[each.input] for each in states}
    rest = {name: array for name, array in inputs.items() if name not in plain}
    found = {}
    for each in recorded:
        try:
            (array,) = first_states([replace(each, is_recurrent=False)], rest).values()
            (present,) = first_states([replace(now[each.input], is_recurrent=False)], rest).values()
        except ValueError:  # the first rows differ, and this is not their number
            continue
        is_known = any(np.array_equal(array, other) for other in (plain[each.input], present))
        if not is_known:
            found[each.input] = array
    return found


def _compare(
    stream: Stream, calls: _Calls, own: Mapping[str, Array], policy: TolerancePolicy
) -> tuple[CaseResult, Arrays]:
    try:
        answer = stream.answer(calls, own)
    except (RuntimeFailedError, KeyError) as error:  # an artifact may lack the output of a state
        return CaseResult(stream.expectation.case.name, CaseStatus.FAILED, str(error)), {}
    return compare_case(stream.expectation, answer, policy=policy), answer


def _record(
    stream: Stream, own: Mapping[str, Array], answer: Arrays, before: Sequence[Mapping[str, Array]]
) -> Recording:
    """Returns the arrays of a sequence that failed, after the calls before it."""
    expectation = stream.expectation
    return Recording(
        case=expectation.case.name,
        inputs={**expectation.case.inputs, **own},
        expected=expectation.outputs or {},
        actual=answer,
        truth=expectation.truth or {},
        before=tuple(before),
        chunks=stream.chunks,
    )
