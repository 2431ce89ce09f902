"""What several runtimes say together: a release that is at fault, a server whose file is."""

from collections.abc import Sequence
from dataclasses import replace

from keras_pe.export.results import Cause, Finding, RuntimeResult
from keras_pe.export.runtimes.runtime import RuntimeName, Version


def is_alike(one: RuntimeResult, other: RuntimeResult) -> bool:
    """Whether two places fail in the same cases by the same amount, to a thousandth."""
    if one.passed or (one.status, len(one.cases)) != (other.status, len(other.cases)):
        return False
    for mine, theirs in zip(one.cases, other.cases, strict=True):
        if mine.status != theirs.status or len(mine.comparisons) != len(theirs.comparisons):
            return False
        for a, b in zip(mine.comparisons, theirs.comparisons, strict=True):
            apart = 0.0 if a.max_abs_diff == b.max_abs_diff else abs(a.max_abs_diff - b.max_abs_diff)
            if a.passed != b.passed or apart > a.tolerance + 1e-3 * a.max_abs_diff:
                return False
    return True


def compare_runtimes(results: Sequence[RuntimeResult]) -> list[RuntimeResult]:
    """Returns the results, with the causes that only show when places are compared with each other."""
    return [
        result if result.passed else _with_served_file(_with_release(result, results), results) for result in results
    ]


def _with_release(result: RuntimeResult, results: Sequence[RuntimeResult]) -> RuntimeResult:
    """Adds that another release of the same runtime passes with the same file."""
    for other in results:
        is_same = (other.artifact, _runtime(other)) == (result.artifact, _runtime(result))
        if is_same and other.passed and _release(other) not in ("", _release(result)) and result.version:
            evidence = (
                f"{_release(other)} passes on the same file and inputs, where {_release(result)} does not: "
                "what lies between the two releases changes the answer."
            )
            layer = next((each.layer for each in result.findings if each.layer), None)
            return replace(result, findings=(Finding(Cause.OTHER_RELEASE, evidence, layer), *_known(result)))
    return result


def _with_served_file(result: RuntimeResult, results: Sequence[RuntimeResult]) -> RuntimeResult:
    """Adds to what a server returns the place and causes of the file that returns the same here."""
    if result.format != "served":
        return result
    for other in results:
        if other.format not in ("served", "keras") and is_alike(result, other):
            evidence = (
                f"The server is off as {other.runtime} is with {other.artifact}, in the same cases by the same "
                "amounts: the fault is in the file, not in the server."
            )
            layer = next((each.layer for each in other.findings if each.layer), None)
            findings = (Finding(Cause.SERVED_FILE, evidence, layer), *_known(other))
            return replace(result, findings=findings, layers=other.layers, proof=other.proof)
    return result


def _known(result: RuntimeResult) -> tuple[Finding, ...]:
    return tuple(finding for finding in result.findings if finding.cause is not Cause.UNKNOWN)


def _runtime(result: RuntimeResult) -> str:
    """Returns the runtime's name without its variant and its installation."""
    return RuntimeName.parse(result.runtime).family


def _release(result: RuntimeResult) -> str:
    """Returns the package, without a variant, and its version."""
    return str(Version.parse(result.version).of_package)
