"""One artifact in one runtime, start to end: the verdict, and where it failed, the place and the causes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keras_pe.export.parity.diagnosis.causes import find_causes
from keras_pe.export.parity.diagnosis.layers import locate
from keras_pe.export.parity.diagnosis.probe import Evidence
from keras_pe.export.parity.references.reference import Expectation, Reference
from keras_pe.export.parity.results import RuntimeResult
from keras_pe.export.parity.verdict.judge import Runner, judge, record
from keras_pe.export.parity.verdict.profile import profile_longest


def examine(
    runner: Runner, path: Path | None, reference: Reference, expectations: Sequence[Expectation]
) -> RuntimeResult:
    """Returns the result of one runtime, causes included. The runtime is closed."""
    result, answers = judge(runner, path, expectations)
    result = replace(result, profile=profile_longest(result, expectations, answers))
    if not result.passed:
        result = replace(result, recording=record(result, expectations, answers))
        evidence = _trace(Evidence(result, expectations, answers, runner, reference))
        result = replace(evidence.result, findings=find_causes(evidence))
    runner.close()
    return result


def _trace(evidence: Evidence) -> Evidence:
    """Returns the evidence with the model layer by layer, if the fault can be followed through it."""
    failing = evidence.failing()
    if not failing or evidence.keras is None or evidence.result.status != "compared":
        return evidence
    smallest = min(failing, key=lambda row: (row[1].case.name == "large values", _size(row[1])))
    layers, half = locate(evidence.runner, evidence.keras, smallest[1])
    return replace(evidence, result=replace(evidence.result, layers=layers), layers=layers, half=half)


def _size(expectation: Expectation) -> int:
    return sum(array.size for array in expectation.case.inputs.values())
