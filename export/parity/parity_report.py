"""The report of a check, and how it is made of what was found."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import keras_pe
from keras_pe.export.artifacts.reading import hash_artifacts
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.seconds import Stopwatch, date
from keras_pe.export.parity.presentation.check_document import document
from keras_pe.export.parity.reports.document import Document
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.parity.reports.report import Report
from keras_pe.export.results import Allowance, CaseInfo, CheckResults, Coverage, RuntimeResult, SkippedRuntime
from keras_pe.export.runtimes.runtime import RuntimeSpec, Version


class ParityReport(Report, CheckResults):
    """What `check_parity` returns: the fields of `CheckResults`, and the ways to read them.

    `print(report)` shows what the terminal does, `report.save("report.html")` writes a page, `report.to_dict()` returns
    JSON's plain values.
    """

    published = Published("parity-report", "A parity check", CheckResults)

    def document(self) -> Document:
        """Returns what the report says, in sentences, tables and pictures."""
        return document(self)


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
    """Returns the report of a check.

    Args:
        model: What the reference is called.
        reference: What was measured against.
        allowance: What the user accepts beside that.
        expectations: What it answered to each case.
        results: What was found.
        jobs: What was to be run; what is not installed was skipped.
        watch: Its stages.
        seed: Of the cases.
        version: The package and version of the reference.
        coverage: What the cases have exercised, as far as that is known.
    """
    skipped = not_installed(jobs)
    places = [*(result.artifact for result in results), *(each.artifact for each in skipped)]
    return ParityReport(
        model=model,
        reference=reference,
        allowance=allowance,
        cases=tuple(map(_case_info, expectations)),
        results=tuple(results),
        skipped=skipped,
        seed=seed,
        versions=versions_of([version, *(result.version for result in results)]),
        seconds=sum(stage.seconds for stage in watch.stages),
        stages=watch.stages,
        coverage=coverage or Coverage(),
        date=date(),
        files=hash_artifacts([Path(place) for place in places if place]),
    )


def untaken(format: str) -> str:
    """Returns why an artifact of a format was not run."""
    return f"none of the chosen runtimes that are installed takes {format}"


def not_installed(jobs: Iterable[tuple[RuntimeSpec, Path | None]]) -> tuple[SkippedRuntime, ...]:
    """Returns what was to be run, and is not installed."""
    return tuple(SkippedRuntime(s.name, str(path or ""), s.install) for s, path in jobs if not s.installed)


def _case_info(expectation: Expectation) -> CaseInfo:
    case = expectation.case
    inputs = {name: f"{array.dtype} {array.shape}" for name, array in case.inputs.items()}
    return CaseInfo(case.name, inputs, case.purpose, expectation.error)


def versions_of(found: Sequence[str]) -> dict[str, str]:
    """Returns the versions by package; `found` has texts such as "onnxruntime 1.31.1"."""
    versions = [Version.parse(version) for version in found if version]
    return {"keras-pe": keras_pe.__version__, **{version.package: version.detail for version in versions}}
