"""Adds streams to the verdict on an artifact with a state: sequences in chunks, whose state goes from call to call."""

from collections.abc import Sequence
from dataclasses import replace

from keras_pe.export.comparison.run_cases import compare_case
from keras_pe.export.comparison.streams import Stream
from keras_pe.export.comparison.tolerance import Law
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.results import CaseResult, CaseStatus, Cause, Finding, RunStatus, RuntimeResult
from keras_pe.export.runtimes.runner import Runner


def with_streams(result: RuntimeResult, runner: Runner, streams: Sequence[Stream], law: Law) -> RuntimeResult:
    """Returns a result with a case for each stream.

    An accepted precision has no streams: its effect is measured on single calls.

    Args:
        result: The verdict on single calls.
        runner: The runtime, still loaded.
        streams: The streams with the answers of the reference.
        law: The tolerance policy.
    """
    if result.status is not RunStatus.COMPARED or law.allowance.precision is not None:
        return result
    cases = [_compare(stream, runner, law) for stream in streams]
    failed = [each for each in cases if each.status is CaseStatus.FAILED]
    findings = result.findings
    if failed and result.passed:
        said = f"Single calls agree. With the state from call to call ({failed[0].name}), the artifact differs."
        findings = (*findings, Finding(Cause.UNKNOWN, said))
    passed = result.passed and not failed
    return replace(result, passed=passed, cases=(*result.cases, *cases), findings=findings)


def _compare(stream: Stream, runner: Runner, law: Law) -> CaseResult:
    try:
        answer = stream.answer(runner.run)
    except (RuntimeFailedError, KeyError) as error:  # an artifact may lack the output of a state
        return CaseResult(stream.expectation.case.name, CaseStatus.FAILED, str(error))
    return compare_case(stream.expectation, answer, law=law)
