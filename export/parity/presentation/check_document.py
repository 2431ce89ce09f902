"""The document of a check."""

from collections.abc import Iterator
from dataclasses import replace

from keras_pe.export.parity.presentation import tables
from keras_pe.export.parity.presentation.groups import Group, group_results
from keras_pe.export.parity.presentation.pictures import pictures
from keras_pe.export.parity.presentation.sentences import (
    accepted,
    coverage,
    describe,
    name_matches,
    remarks,
    statements,
)
from keras_pe.export.parity.reports.document import CaseVerdict, Document, Outcome, Part, Suite
from keras_pe.export.results import CaseResult, CheckResults, RuntimeResult


def document(found: CheckResults) -> Document:
    """Returns what the report of a check says."""
    groups = group_results(found.results)
    shown = next((group for group in groups if group.first.artifact), groups[0] if groups else None)
    return Document(
        title=f"Parity of {found.model}",
        passed=found.passed,
        summary=(
            f"Measured against {found.reference}.",
            *([] if found.allowance.is_none else [f"Accepted beside that: {found.allowance}."]),
            f"{found.compared:,} values compared in {found.seconds:.1f} s.",
            *coverage(found),
        ),
        parts=tuple(_part(found, group, found.passed and group is shown) for group in groups),
        overview=tables.runtimes(groups),
        tables=(tables.matrix(groups),),
        remarks=tuple(remarks(found)),
        appendix=(tables.cases(found), *tables.appendix(found, ("seed of the inputs", str(found.seed)))),
        suites=(*(_suite(found, result) for result in found.results), *_others(found)),
        seconds=found.seconds,
    )


def _part(found: CheckResults, group: Group, is_shown: bool) -> Part:
    return Part(
        title=f"{group.name} on {group.artifact}",
        passed=group.passed,
        statements=() if group.passed else tuple(statements(found.model, group)),
        notes=tuple(
            f"{each.runtime}: {each.version}, {each.seconds:.3f} s in its runs"
            for each in group.results
            if each.version
        ),
        tables=(tables.layers(group.first), tables.comparisons(group.first)),
        pictures=tuple(pictures(group.first)),
        is_open=is_shown or not group.passed,
    )


def _suite(found: CheckResults, result: RuntimeResult) -> Suite:
    """Returns a suite for an artifact in a runtime, with a verdict for each case."""
    name = f"{result.runtime} {result.artifact}".strip()
    verdicts = [_verdict(found.model, result, case) for case in result.cases]
    if result.error:
        verdicts.append(CaseVerdict(result.status, Outcome.ERROR, result.status, result.error))
    elif not result.passed and all(each.outcome is not Outcome.FAILED for each in verdicts):
        verdicts.append(_of_findings(result) if result.findings else _nothing("compared"))
    properties = {"names": _names(result)} if result.names else {}
    for each in accepted(replace(found, results=(result,))):
        properties["accepted"] = each.text
    return Suite(name, tuple(verdicts), result.seconds, properties)


def _verdict(model: str, result: RuntimeResult, case: CaseResult) -> CaseVerdict:
    outcome = tables.OUTCOMES[case.status]
    if outcome is Outcome.PASSED:
        return CaseVerdict(case.name, outcome)
    if outcome is Outcome.SKIPPED:
        both = "the reference refuses this case, and so does the runtime"
        return CaseVerdict(case.name, outcome, message=case.error or both)
    said = [describe(model, result.runtime, case.name, each) for each in case.comparisons if not each.passed]
    said += [case.error] if case.error else []
    causes = [f"{each.label}: {each.text}" for each in statements(model, Group((result,))) if each.label != "worst"]
    names = [_names(result)] if result.names else []  # a wrong guess here would be the failure
    kind = str(result.findings[0].cause) if result.findings else "difference"
    return CaseVerdict(case.name, Outcome.FAILED, kind, said[0], (*causes, *said, *names))


def _of_findings(result: RuntimeResult) -> CaseVerdict:
    """Returns the verdict on what the artifact stores, where every case has passed."""
    said = tuple(each.evidence for each in result.findings)
    return CaseVerdict("weights", Outcome.FAILED, result.findings[0].cause, said[0], said[1:])


def _names(result: RuntimeResult) -> str:
    return name_matches(result.artifact or result.runtime, result.names)


def _others(found: CheckResults) -> Iterator[Suite]:
    """Yields a suite for what was not run, where there is any."""
    verdicts = [] if found.results else [_nothing("reference")]
    for each in found.skipped:
        message = f"not installed. Install it with: {each.install}"
        verdicts.append(CaseVerdict(f"{each.runtime} {each.artifact}", Outcome.SKIPPED, message=message))
    if verdicts:
        yield Suite(found.model, tuple(verdicts))


def _nothing(name: str) -> CaseVerdict:
    return CaseVerdict(name, Outcome.ERROR, "nothing compared", "nothing was compared")
