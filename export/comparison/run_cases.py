"""Runs and compares every case of one artifact in one runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from keras_pe.export.comparison.compare import compare_outputs, may_be_rounding
from keras_pe.export.comparison.declared_shapes import Declarations, FalseDeclaration
from keras_pe.export.comparison.error_profiles import profile_longest
from keras_pe.export.comparison.inputs.cases import Case, cast_where_exact
from keras_pe.export.comparison.name_matching import (
    cast_to_runtime_floats,
    input_dtypes,
    match_inputs,
    match_outputs,
    runner_names,
)
from keras_pe.export.comparison.references.reference import Expectation, Reference, StoredReference
from keras_pe.export.comparison.tolerance import FAR_OUT, STRICT, TolerancePolicy
from keras_pe.export.errors import (
    InvalidAnswerError,
    RuntimeDiedError,
    RuntimeFailedError,
    RuntimeHungError,
    RuntimeRefusedError,
)
from keras_pe.export.results import (
    HALF,
    Array,
    CaseResult,
    CaseStatus,
    Recording,
    RunStatus,
    RuntimeResult,
)
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec

# An error of this many times the tolerance by one sample of the noise is not rounding, since other samples are alike.
_FAR_OUT_OF_SAMPLE = 1e2


@dataclass(frozen=True)
class Run:
    """The verdict on one runtime, with the data that it follows from.

    Attributes:
        result: The verdict, without causes.
        expectations: The answer of the reference to each case.
        answers: The runtime's outputs for each case that ran; None if it refused the case.
        false_declarations: Declared shapes that differ from returned shapes, one for each output.
    """

    result: RuntimeResult
    expectations: Sequence[Expectation]
    answers: Sequence[Arrays | None]
    false_declarations: Sequence[FalseDeclaration] = ()


def run_cases(
    runner: Runner,
    spec: RuntimeSpec,
    path: Path | None,
    reference: Reference,
    expectations: Sequence[Expectation],
    precision: str | None = None,
) -> Run:
    """Loads the artifact, runs every case in order, and compares by the strict policy. The runtime stays loaded.

    Args:
        runner: Runs the artifact.
        spec: The runtime.
        path: The artifact; None without one.
        reference: The reference of the differences.
        expectations: The answers of the reference.
        precision: The accepted precision, in which the artifact may take floats.
    """
    failed = RuntimeResult(str(path or ""), spec.format, spec.name, passed=False, status=RunStatus.COMPARED)
    try:
        runner.load(path, spec)
        names = match_inputs(reference, runner.inputs, path)
        runner.names = runner_names(names)
        expectations = _select_precision(runner, expectations)
        expectations = [_cast_inputs(runner, reference, each, precision) for each in expectations]
    except RuntimeFailedError as error:
        failed = _with_end(failed, error, "while it loaded")
        return Run(replace(failed, recording=_record(failed, expectations, [])), expectations, [])
    cases: list[CaseResult] = []
    answers: list[Arrays | None] = []
    answer: Arrays | None
    is_named = False
    for number, expectation in enumerate(expectations):
        try:
            answer, refusal = runner.run(expectation.case.inputs), None
        except (InvalidAnswerError, RuntimeDiedError, RuntimeHungError) as error:
            failed = _with_end(failed, error, expectation.case.name)
            break
        except RuntimeRefusedError as error:
            answer, refusal = None, str(error)
        if answer and expectation.outputs and not is_named:
            names += match_outputs(reference, expectation.outputs, answer, path)
            runner.names, is_named = runner_names(names), True
            answer = runner.names.to_model(answer)
        answers.append(answer)
        expectations[number] = _cast_stored_outputs(answer or {}, reference, expectation)
        cases.append(_compare(reference, expectations[number], answer or {}, refusal))
    measured = _with_noise(reference, expectations, answers, cases)
    declarations = Declarations.from_artifact(path, runner.names)
    broken = [
        declarations.broken_by(expectation.case.inputs, answer or {}, expectation.outputs or {})
        for expectation, answer in zip(expectations, answers, strict=False)
    ]
    measured = tuple(_with_broken(case, found) for case, found in zip(measured, broken, strict=True))
    passed = failed.status is RunStatus.COMPARED and have_passed(measured)
    result = replace(failed, passed=passed, cases=measured, version=runner.version, seconds=runner.seconds)
    result = replace(result, names=names, providers=dict(runner.providers))
    result = replace(result, profile=profile_longest(result, expectations, answers))
    recording = None if passed else _record(result, expectations, answers)
    false = {each.declared.name: each for found in broken for each in found}
    return Run(replace(result, recording=recording), expectations, answers, (*false.values(),))


def _with_noise(
    reference: Reference,
    expectations: Sequence[Expectation],
    answers: Sequence[Arrays | None],
    cases: Sequence[CaseResult],
) -> Sequence[CaseResult]:
    """Returns the results, with the cases near their tolerance compared again by the noise near them.

    One sample near the nearest failed case comes first. If it shows no rounding, the artifact is wrong, and the other
    cases keep the tolerance of their own errors.
    """

    def near(limit: float) -> list[int]:
        return [number for number, case in enumerate(cases) if may_be_rounding(case.comparisons, limit)]

    def order(number: int) -> tuple[bool, float]:
        return cases[number].status is not CaseStatus.FAILED, max(c.tolerance_ratio for c in cases[number].comparisons)

    again = partial(compared_again, reference, expectations, answers, policy=STRICT)
    if not near(FAR_OUT):
        return cases
    first, *others = sorted(near(FAR_OUT), key=order)
    cases = again(cases, [first], is_brief=True)
    if cases[first].status is CaseStatus.FAILED and first not in near(_FAR_OUT_OF_SAMPLE):
        return cases
    cases = again(cases, others, is_brief=True)
    return again(cases, near(_FAR_OUT_OF_SAMPLE))


def _with_broken(case: CaseResult, broken: Sequence[FalseDeclaration]) -> CaseResult:
    """Returns the result of a case, failed if the case proves a declaration false."""
    if case.error or not broken or any(each.problem for each in case.comparisons):
        return case
    return replace(case, status=CaseStatus.FAILED, error=str(broken[0]))


def _with_end(result: RuntimeResult, error: RuntimeFailedError, when: str) -> RuntimeResult:
    """Returns the result of a runtime that did not load the artifact, or failed to answer a case."""
    if isinstance(error, InvalidAnswerError):
        return replace(result, status=RunStatus.INVALID_ANSWER, error=f"{when}: {error}")
    if isinstance(error, RuntimeRefusedError):
        return replace(result, status=RunStatus.NOT_LOADED, error=str(error))
    status = RunStatus.CRASHED if isinstance(error, RuntimeDiedError) else RunStatus.HUNG
    return replace(result, status=status, error=f"{when}: {error}")


def have_passed(cases: Sequence[CaseResult]) -> bool:
    """Whether any value was compared, and no case failed."""
    is_compared = any(comparison.count for case in cases for comparison in case.comparisons)
    return is_compared and all(case.status is not CaseStatus.FAILED for case in cases)


def _select_precision(runner: Runner, expectations: Sequence[Expectation]) -> Sequence[Expectation]:
    """Returns the expectations in the artifact's precision, if the model's precision is narrower."""
    if all(each.in_float32 is None for each in expectations):
        return expectations
    if computes_in_float32(runner):
        return expectations
    return [replace(each, in_float32=None) for each in expectations]


def computes_in_float32(runner: Runner) -> bool:
    """Whether an artifact computes in wider floats than 16 bits. The model must compute in 16 bits."""
    return runner.spec.format != "keras" and not set(HALF).intersection(runner.float_dtypes())


def _cast_inputs(runner: Runner, reference: Reference, expectation: Expectation, precision: str | None) -> Expectation:
    """Returns a case with the artifact's input types: exact casts for a stored case, and the artifact's floats."""
    inputs = expectation.case.inputs
    if isinstance(reference, StoredReference):
        inputs = cast_where_exact(inputs, input_dtypes(runner))
    inputs = cast_to_runtime_floats(runner, inputs, precision)
    if inputs is expectation.case.inputs:
        return expectation
    return replace(expectation, case=replace(expectation.case, inputs=inputs))


def _cast_stored_outputs(answer: Arrays, reference: Reference, expectation: Expectation) -> Expectation:
    """Returns stored outputs with the types of an answer, if the cast is exact and their own types are not known."""
    if not isinstance(reference, StoredReference) or expectation.outputs is None:
        return expectation
    dtypes = {name: array.dtype for name, array in answer.items() if name not in reference.typed}
    return replace(expectation, outputs=cast_where_exact(expectation.outputs, dtypes))


def _compare(reference: Reference, expectation: Expectation, answer: Arrays, refusal: str | None) -> CaseResult:
    """Returns the result of one case. Both sides may refuse it; one side may if the compiled model differs itself."""
    name = expectation.case.name
    if expectation.outputs is None:
        if not expectation.is_fair or refusal is not None or not any(array.size for array in answer.values()):
            return CaseResult(name, CaseStatus.SKIPPED)
        if _answers_compiled(reference, expectation.case):
            message = f"the eager model refuses it ({expectation.error}), but the compiled model accepts it"
            return CaseResult(name, CaseStatus.SKIPPED, message)
        return CaseResult(
            name, CaseStatus.FAILED, f"it answers inputs that the reference refuses ({expectation.error})"
        )
    if refusal is not None:
        return CaseResult(name, CaseStatus.FAILED, refusal)
    return compare_case(expectation, answer)


def _answers_compiled(reference: Reference, case: Case) -> bool:
    """Whether the model answers a case as a graph that it refuses eagerly. An artifact may then answer as well."""
    try:
        return any(array.size for array in reference.expect_traced(case.inputs).values())
    except RuntimeRefusedError:
        return False


def compare_case(
    expectation: Expectation, answer: Arrays, noise: Mapping[str, Array] | None = None, policy: TolerancePolicy = STRICT
) -> CaseResult:
    """Returns the result of one case that both sides have answered.

    If the effect of an accepted precision is unknown, the model's own noise floor is not used.
    """
    expected, own = expectation.outputs or {}, None
    if expectation.in_float32 is not None:
        expected, own = expectation.in_float32, expectation.outputs
    is_unknown = policy.allowance.precision is not None and not noise
    truth = None if is_unknown else expectation.truth
    comparisons = compare_outputs(expected, answer, truth, own=own, noise=noise, policy=policy)
    passed = all(each.passed for each in comparisons)
    return CaseResult(expectation.case.name, CaseStatus.PASSED if passed else CaseStatus.FAILED, "", comparisons)


def compared_again(
    reference: Reference,
    expectations: Sequence[Expectation],
    answers: Sequence[Arrays | None],
    cases: Sequence[CaseResult],
    numbers: Sequence[int],
    policy: TolerancePolicy,
    *,
    is_brief: bool = False,
) -> tuple[CaseResult, ...]:
    """Returns the results, with some cases compared again by the noise near them in the policy's precision."""
    near = [expectations[number].case for number in numbers]
    noises = reference.noise(near, policy.allowance.precision, is_brief=is_brief) if near else []
    results = list(cases)
    for number, noise in zip(numbers, noises, strict=True):
        results[number] = compare_case(expectations[number], answers[number] or {}, noise, policy)
    return tuple(results)


def _record(result: RuntimeResult, expectations: Sequence[Expectation], answers: Sequence[Arrays | None]) -> Recording:
    """Returns the arrays of a failing runtime's worst case.

    The worst case is the one that ended the runtime, else the one with the worst comparison, else the first that
    failed.
    """
    failed = [index for index, case in enumerate(result.cases) if case.status == CaseStatus.FAILED]
    if result.status != RunStatus.COMPARED:
        index = len(answers)
    elif result.worst is not None and not result.worst[1].passed:
        index = next(i for i, case in enumerate(result.cases) if case.name == result.worst[0])
    else:
        index = failed[0] if failed else 0
    expectation = expectations[index]
    expected = expectation.in_float32 or expectation.outputs
    return Recording(
        case=expectation.case.name,
        inputs=expectation.case.inputs,
        expected=expected or {},
        actual=(answers[index] if index < len(answers) else None) or {},
        truth=expectation.truth or {},
        before=tuple(each.case.inputs for each in expectations[:index]),
    )
