"""Makes the report of a check by cases from its results, and renders it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import keras_pe
from keras_pe.export.artifacts.quantized_tensors import read_quantization
from keras_pe.export.artifacts.read_artifact import hash_artifacts, read_artifact
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.parity.presentation.figures import (
    OUTCOMES,
    REFUSED_BY_BOTH,
    cases,
    comparisons,
    largest_figures,
    layers,
    pictures,
    quantized_tensors,
)
from keras_pe.export.parity.presentation.report_content import Subject, beside, fill, name_matches, nothing_compared
from keras_pe.export.parity.presentation.sentences import (
    Group,
    acceptance_statements,
    coverage,
    describe,
    group_results,
    remarks,
    statements,
)
from keras_pe.export.parity.reports.document import CaseVerdict, Document, Outcome, Suite
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report
from keras_pe.export.progress import Stopwatch, date
from keras_pe.export.results import (
    Allowance,
    CaseInfo,
    CaseResult,
    CheckResults,
    Coverage,
    QuantizedTensor,
    RuntimeResult,
    SkippedRuntime,
)
from keras_pe.export.runtimes.runtime import RuntimeSpec, Version

_COLUMNS = ("cases", "max |diff|", "of allowed", "over floor")


class ParityReport(Report, CheckResults):
    """The report of `check_parity`: the fields of `CheckResults`, and methods that render them.

    `print(report)` prints the text of the terminal, `report.save("report.html")` writes a page, and `report.to_dict()`
    returns JSON values.
    """

    published = Published("parity-report", "A parity check", CheckResults)

    def document(self) -> Document:
        page = Document(
            title=f"Parity of {self.model}",
            passed=self.passed,
            summary=(
                f"Measured against {self.reference}.",
                *beside(self),
                f"{self.compared:,} values compared in {self.seconds:.1f} s{_share(self)}.",
                *coverage(self),
            ),
            remarks=tuple(remarks(self)),
            appendix=(cases(self),),
            suites=tuple(_suite(self, result) for result in self.results),
        )
        subjects = [subject(self.model, group) for group in group_results(self.results)]
        seed = (("seed of the inputs", str(self.seed)),)
        return fill(self, page, subjects, columns=_COLUMNS, compared=self.compared, versions=seed)


def _share(found: CheckResults) -> str:
    """Returns the least compared share among the results, as text; empty if every value was compared."""
    least = min((each.compared_share for each in found.results if each.cases), default=1.0)
    return "" if least == 1 else f", {100 * least:.0f} % of the values of the cases"


def make_report(
    model: str,
    reference: str,
    allowance: Allowance,
    expectations: Iterable[Expectation],
    results: Sequence[RuntimeResult],
    jobs: Iterable[tuple[RuntimeSpec, Path | None]],
    watch: Stopwatch,
    seed: int,
    version: str = "",
    coverage: Coverage | None = None,
) -> ParityReport:
    """Returns the report of a check, with the fields of `CheckResults`.

    Args:
        model, reference, allowance, results, seed, coverage: As in `CheckResults`.
        expectations: The reference's answer to each case.
        jobs: The planned runs. A run is skipped if its runtime is not installed.
        watch: Its stages are the report's stages.
        version: The package and version of the reference.
    """
    skipped = not_installed(jobs)
    places = [*(result.artifact for result in results), *(each.artifact for each in skipped)]
    quantized = {path: _read_quantization(path) for path in {result.artifact for result in results} if path}
    return ParityReport(
        model=model,
        reference=reference,
        allowance=allowance,
        cases=tuple(map(_case_info, expectations)),
        results=tuple(replace(each, quantized=quantized.get(each.artifact, ())) for each in results),
        skipped=skipped,
        seed=seed,
        versions=versions_of([version, *(result.version for result in results)]),
        seconds=sum(stage.seconds for stage in watch.stages),
        stages=watch.stages,
        coverage=coverage or Coverage(),
        date=date(),
        files=hash_artifacts([Path(place) for place in places if place]),
    )


def _read_quantization(path: str) -> tuple[QuantizedTensor, ...]:
    """Returns the tensors of an artifact that are integers with a scale; none if its contents cannot be read."""
    try:
        return read_quantization(read_artifact(path))
    except (ImportError, OSError, ValueError):
        return ()


def untaken(format: str) -> str:
    """Returns the reason that no runtime ran an artifact of a format."""
    return f"no chosen and installed runtime accepts {format}"


def not_installed(jobs: Iterable[tuple[RuntimeSpec, Path | None]]) -> tuple[SkippedRuntime, ...]:
    """Returns the planned runs whose runtime is not installed."""
    return tuple(SkippedRuntime(s.name, str(path or ""), s.install) for s, path in jobs if not s.installed)


def _case_info(expectation: Expectation) -> CaseInfo:
    case = expectation.case
    inputs = {name: f"{array.dtype} {array.shape}" for name, array in case.inputs.items()}
    return CaseInfo(case.name, inputs, case.purpose, expectation.error)


def versions_of(found: Sequence[str]) -> dict[str, str]:
    """Returns the versions by package; `found` has texts such as "onnxruntime 1.31.1"."""
    versions = [Version.parse(version) for version in found if version]
    return {"keras-pe": keras_pe.__version__, **{version.package: version.detail for version in versions}}


def subject(model: str, group: Group) -> Subject:
    """Returns the subject of a group of equal results."""
    result, compared = group.first, group.compared
    status = f" ({result.status if result.error else 'nothing compared'})"
    figures = largest_figures(compared)
    return Subject(
        name=group.name,
        artifact=group.artifact,
        passed=group.passed,
        figures=(_compared_cases(group.results), *figures),
        statements=tuple(statements(model, group)),
        notes=tuple(f"{e.runtime}: {e.version}, {e.seconds:.3f} s in its runs" for e in group.results if e.version),
        tables=(layers(result), comparisons(result), quantized_tensors(result)),
        pictures=tuple(pictures(result)),
        why="" if compared or group.worst is not None else status,
        short=f", {result.status}" if result.error else f" {figures[0]}".rstrip(" -"),
        names=result.names,
        is_file=bool(result.artifact),
    )


def _compared_cases(results: Sequence[RuntimeResult]) -> str:
    """Returns the number of compared cases of the result with the fewest, with the total if some were not compared."""
    fewest = min(results, key=lambda each: each.compared_cases)
    total = len(fewest.cases)
    return str(total) if fewest.compared_cases == total else f"{fewest.compared_cases} of {total}"


def _suite(found: CheckResults, result: RuntimeResult) -> Suite:
    """Returns a suite for an artifact in a runtime, with a verdict on each case."""
    name = f"{result.runtime} {result.subject}".strip()
    verdicts = [_verdict(found.model, result, case) for case in result.cases]
    if result.error:
        verdicts.append(CaseVerdict(result.status, Outcome.ERROR, result.status, result.error))
    elif not result.passed and all(each.outcome is not Outcome.FAILED for each in verdicts):
        verdicts.append(_weight_verdict(result) if result.findings else nothing_compared("compared"))
    properties = {"names": _names(result)} if result.names else {}
    for each in acceptance_statements(replace(found, results=(result,))):
        properties["accepted"] = each.text
    return Suite(name, tuple(verdicts), result.seconds, properties)


def _verdict(model: str, result: RuntimeResult, case: CaseResult) -> CaseVerdict:
    outcome = OUTCOMES[case.status]
    if outcome is Outcome.PASSED:
        return CaseVerdict(case.name, outcome)
    if outcome is Outcome.SKIPPED:
        return CaseVerdict(case.name, outcome, message=case.error or REFUSED_BY_BOTH)
    texts = [describe(model, result.runtime, case.name, each) for each in case.comparisons if not each.passed]
    texts += [case.error] if case.error else []
    causes = [f"{each.label}: {each.text}" for each in statements(model, Group((result,))) if each.label != "worst"]
    names = [_names(result)] if result.names else []  # listed, since a wrong match of names looks like this failure
    kind = str(result.findings[0].cause) if result.findings else "difference"
    return CaseVerdict(case.name, Outcome.FAILED, kind, texts[0], (*causes, *texts, *names))


def _weight_verdict(result: RuntimeResult) -> CaseVerdict:
    """Returns the verdict on the stored weights, for a result whose cases all passed."""
    texts = tuple(each.evidence for each in result.findings)
    return CaseVerdict("weights", Outcome.FAILED, result.findings[0].cause, texts[0], texts[1:])


def _names(result: RuntimeResult) -> str:
    return name_matches(result.subject or result.runtime, result.names)
