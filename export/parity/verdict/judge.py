"""One artifact in one runtime: every case run, every output compared."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.parity.references.reference import Expectation
from keras_pe.export.parity.results import CaseResult, Recording, RuntimeResult
from keras_pe.export.parity.verdict.compare import compare_outputs
from keras_pe.export.runtimes.in_process import KerasHere
from keras_pe.export.runtimes.runtime import Arrays
from keras_pe.export.runtimes.worker import Worker

Runner = Worker | KerasHere


def judge(
    runner: Runner, path: Path | None, expectations: Sequence[Expectation]
) -> tuple[RuntimeResult, list[Arrays | None]]:
    """Runs every case in order, and compares.

    Returns:
        The result without causes, and the runtime's outputs, one a case, None where it refused.
    """
    spec = runner.spec
    failed = RuntimeResult(str(path or ""), spec.format, spec.name, passed=False, status="compared")
    try:
        runner.load(path)
    except RuntimeRefusedError as error:
        return replace(failed, status="not loaded", message=str(error)), []
    except (RuntimeDiedError, RuntimeHungError) as error:
        return replace(failed, status=_how(error), message=f"while it loaded: {error}"), []
    cases: list[CaseResult] = []
    answers: list[Arrays | None] = []
    answer: Arrays | None
    ended: RuntimeDiedError | RuntimeHungError | None = None
    for expectation in expectations:
        try:
            answer, refusal = runner.run(expectation.case.inputs), None
        except RuntimeRefusedError as error:
            answer, refusal = None, str(error)
        except (RuntimeDiedError, RuntimeHungError) as error:
            ended = error
            failed = replace(failed, status=_how(error), message=f"{expectation.case.name}: {error}")
            break
        answers.append(answer)
        cases.append(_compare(expectation, answer or {}, refusal))
    compared = any(comparison.count for case in cases for comparison in case.comparisons)
    passed = ended is None and compared and all(case.status != "failed" for case in cases)
    result = replace(failed, passed=passed, cases=tuple(cases), version=runner.version, seconds=runner.seconds)
    return result, answers


def _how(error: RuntimeDiedError | RuntimeHungError) -> Literal["crashed", "hung"]:
    return "crashed" if isinstance(error, RuntimeDiedError) else "hung"


def _compare(expectation: Expectation, answer: Arrays, refusal: str | None) -> CaseResult:
    """Returns the result of one case: both may refuse it, one alone may not."""
    name = expectation.case.name
    if expectation.outputs is None:
        if not expectation.is_fair or refusal is not None or not any(array.size for array in answer.values()):
            return CaseResult(name, "refused")
        return CaseResult(name, "failed", f"it answers what the reference refuses ({expectation.refused})")
    if refusal is not None:
        return CaseResult(name, "failed", refusal)
    comparisons = compare_outputs(expectation.outputs, answer, expectation.truth)
    return CaseResult(name, "passed" if all(c.passed for c in comparisons) else "failed", "", comparisons)


def record(result: RuntimeResult, expectations: Sequence[Expectation], answers: Sequence[Arrays | None]) -> Recording:
    """Returns the arrays of a failing runtime's worst case.

    That is the case it did not survive, or the one with the worst comparison, or else the first that failed.
    """
    failed = [index for index, case in enumerate(result.cases) if case.status == "failed"]
    if result.status != "compared":
        index = len(answers)
    elif result.worst is not None and not result.worst[1].passed:
        index = next(i for i, case in enumerate(result.cases) if case.case == result.worst[0])
    else:
        index = failed[0] if failed else 0
    expectation = expectations[index]
    return Recording(
        case=expectation.case.name,
        inputs=expectation.case.inputs,
        expected=expectation.outputs or {},
        actual=(answers[index] if index < len(answers) else None) or {},
        truth=expectation.truth or {},
        before=tuple(each.case.inputs for each in expectations[:index]),
    )
