"""The document of a check by cases."""

import math
from collections.abc import Iterator
from dataclasses import replace

from keras_pe.export.parity.presentation import tables
from keras_pe.export.parity.presentation.filling import Subject, beside, fill, name_matches, skipped_verdicts
from keras_pe.export.parity.presentation.pictures import pictures
from keras_pe.export.parity.presentation.sentences import (
    Group,
    accepted,
    coverage,
    describe,
    group_results,
    remarks,
    statements,
)
from keras_pe.export.parity.presentation.tables import number
from keras_pe.export.parity.reports.document import CaseVerdict, Document, Outcome, Part, Suite
from keras_pe.export.results import CaseResult, CheckResults, RuntimeResult

_COLUMNS = ("cases", "max |diff|", "allowed", "over floor")


def document(found: CheckResults) -> Document:
    """Returns what the report of a check says."""
    said = Document(
        title=f"Parity of {found.model}",
        passed=found.passed,
        summary=(
            f"Measured against {found.reference}.",
            *beside(found),
            f"{found.compared:,} values compared in {found.seconds:.1f} s.",
            *coverage(found),
        ),
        remarks=tuple(remarks(found)),
        appendix=(tables.cases(found),),
        suites=(*(_suite(found, result) for result in found.results), *_others(found)),
    )
    subjects = [subject(found.model, group) for group in group_results(found.results)]
    seed = (("seed of the inputs", str(found.seed)),)
    return fill(found, said, subjects, columns=_COLUMNS, compared=found.compared, versions=seed)


def subject(model: str, group: Group) -> Subject:
    """Returns what there is to say of results that say the same.

    Args:
        model: What the model is called.
        group: These.
    """
    result, worst = group.first, None if group.worst is None else group.worst[2]
    status = f" ({result.status if result.error else 'nothing compared'})"
    figures = ("-", "-", "-")
    if worst is not None and math.isfinite(worst.max_abs_diff):
        figures = (number(worst.max_abs_diff), number(worst.tolerance), tables.ratio(worst))
    short = "" if worst is None else f" {number(worst.max_abs_diff)}"
    part = Part(
        title="",
        passed=group.passed,
        statements=tuple(statements(model, group)),
        notes=tuple(f"{e.runtime}: {e.version}, {e.seconds:.3f} s in its runs" for e in group.results if e.version),
        tables=(tables.layers(result), tables.comparisons(result)),
        pictures=tuple(pictures(result)),
    )
    return Subject(
        name=group.name,
        artifact=group.artifact,
        part=part,
        figures=(str(len(result.cases)), *figures),
        why=status if worst is None else "",
        short=f", {result.status}" if result.error else short,
        names=result.names,
        is_file=bool(result.artifact),
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
    verdicts = [*([] if found.results else [_nothing("reference")]), *skipped_verdicts(found)]
    if verdicts:
        yield Suite(found.model, tuple(verdicts))


def _nothing(name: str) -> CaseVerdict:
    return CaseVerdict(name, Outcome.ERROR, "nothing compared", "nothing was compared")
