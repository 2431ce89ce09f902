"""Fills the document of a check: alike for the cases of a sweep and the rows of a data set."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keras_pe.export.parity.presentation.remedies import remedy
from keras_pe.export.parity.reports.document import (
    CaseVerdict,
    Document,
    Mark,
    Outcome,
    Part,
    Picture,
    Row,
    Statement,
    Suite,
    TextTable,
)
from keras_pe.export.results import AnyResults, Finding, NameMatch

_MOST_CAUSES = 4


@dataclass(frozen=True)
class Subject:
    """Report content of one artifact in one runtime, or in variants with equal results.

    Attributes:
        name: Name of the runtime or variants.
        artifact: The artifact's name.
        passed: The verdict.
        figures: Its cells of the overview, after the verdict.
        statements: As in `Part`, and so are the next three.
        notes: In small print.
        tables: Its figures.
        pictures: Its pictures.
        why: Text after the verdict in the overview, such as " (not loaded)".
        short: The same in a table with artifacts down and runtimes across.
        names: The inputs and outputs that the artifact calls otherwise.
        is_file: Whether it is a file that was checked, and not the model itself.
    """

    name: str
    artifact: str
    passed: bool
    figures: tuple[str, ...]
    statements: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[TextTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    why: str = ""
    short: str = ""
    names: tuple[NameMatch, ...] = ()
    is_file: bool = True

    def part(self, *, is_open: bool) -> Part:
        """Returns its part of the document."""
        return Part(
            title=f"{self.name} on {self.artifact}",
            passed=self.passed,
            statements=() if self.passed else self.statements,
            notes=self.notes,
            tables=self.tables,
            pictures=self.pictures,
            is_open=is_open,
        )


def fill(
    found: AnyResults,
    page: Document,
    subjects: Sequence[Subject],
    *,
    columns: tuple[str, ...],
    compared: int,
    versions: tuple[tuple[str, str], ...] = (),
) -> Document:
    """Returns the document of a check.

    Args:
        found: The check.
        page: Sentences about the whole check.
        subjects: Its artifacts in their runtimes.
        columns: Columns of the overview after the verdict.
        compared: How many values or rows were.
        versions: Rows beside the versions of packages: name and value.
    """
    first = next((each for each in subjects if each.is_file), subjects[0] if subjects else None)
    date = (("date", found.date),) if found.date else ()
    named = (name_matches(each.artifact, each.names) for each in subjects if each.names)
    remarks = [*page.remarks, *(Statement("", matches) for matches in dict.fromkeys(named))]
    if not compared:
        remarks.append(Statement("", "Nothing was compared, so the check has failed."))
    others = [*([] if subjects else [nothing_compared("reference")]), *_skipped_verdicts(found)]
    return replace(
        page,
        parts=tuple(each.part(is_open=not each.passed or (page.passed and each is first)) for each in subjects),
        overview=_overview(columns, subjects),
        tables=(matrix(subjects),),
        remarks=tuple(remarks),
        appendix=(
            *page.appendix,
            TextTable("Versions", ("package", "version"), (*found.versions.items(), *versions)),
            TextTable("Date and files", ("file", "SHA-256"), (*date, *found.files.items())),
        ),
        suites=(*page.suites, *([Suite(found.model, tuple(others))] if others else [])),
        seconds=found.seconds,
    )


def artifact_names(artifacts: Iterable[str]) -> dict[str, str]:
    """Returns what a report calls artifacts: a file's name, with as many of its folders as tell it from the others."""
    parts = {artifact: Path(artifact).parts for artifact in artifacts}

    def name(own: tuple[str, ...]) -> str:
        ends = (own[-count:] for count in range(1, len(own)))
        is_alone = (end for end in ends if sum(other[-len(end) :] == end for other in parts.values()) == 1)
        return str(Path(*next(is_alone, own)))

    return {artifact: name(own) if own else "" for artifact, own in parts.items()}


def nothing_compared(name: str) -> CaseVerdict:
    """Returns the verdict on what was to be compared, and was not."""
    return CaseVerdict(name, Outcome.ERROR, "nothing compared", "nothing was compared")


def _overview(columns: tuple[str, ...], subjects: Sequence[Subject]) -> TextTable:
    """Returns a row for each subject."""
    rows: list[Row] = [
        (each.name, each.artifact, Mark(Outcome.of(each.passed), each.why), *each.figures) for each in subjects
    ]
    failed = tuple(place for place, each in enumerate(subjects) if not each.passed)
    return TextTable("Runtimes", ("runtime", "artifact", "result", *columns), tuple(rows), failed)


def matrix(subjects: Sequence[Subject]) -> TextTable:
    """Returns artifacts down and runtimes across: the verdict of each, and what its worst output is off by.

    Without a row where it would say no more than the overview: for one artifact.
    """
    artifacts = tuple(dict.fromkeys(each.artifact for each in subjects))
    names = tuple(dict.fromkeys(each.name for each in subjects))
    cells = {(each.artifact, each.name): Mark(Outcome.of(each.passed), each.short) for each in subjects}
    rows = [(artifact, *(cells.get((artifact, name), "") for name in names)) for artifact in artifacts]
    at_fault = tuple(artifacts.index(each.artifact) for each in subjects if not each.passed)
    return TextTable("Artifacts and runtimes", ("artifact", *names), tuple(rows) if len(rows) > 1 else (), at_fault)


def causes(findings: Sequence[Finding]) -> Iterator[Statement]:
    """Yields what was found, the first few in full, and what to do about these."""
    shown, rest = findings[:_MOST_CAUSES], findings[_MOST_CAUSES:]
    for finding in shown:
        yield Statement("cause", explain(finding))
    if rest:
        places = ", ".join(dict.fromkeys(repr(each.layer or each.output or str(each.cause)) for each in rest))
        yield Statement("cause", f"and {len(rest)} more: {places}.")
    for way_out in dict.fromkeys(remedy(finding.cause) for finding in shown):
        yield Statement("what to do now", way_out)


def explain(finding: Finding) -> str:
    """Returns a cause, its location and its evidence."""
    layer = f" in layer {finding.layer!r}" if finding.layer else ""
    output = f" in output {finding.output!r}" if finding.output else ""
    absent = f" Absent with it: {', '.join(map(repr, finding.absent))}." if finding.absent else ""
    return f"{finding.cause}{layer}{output}. {finding.evidence}{absent}"


def beside(found: AnyResults) -> tuple[str, ...]:
    """Returns a sentence with the differences that the user accepts; an empty tuple without any."""
    return () if found.allowance.is_none else (f"Also accepted: {found.allowance}.",)


def skip_statements(found: AnyResults) -> Iterator[Statement]:
    """Yields what was not run because it is not installed."""
    for each in found.skipped:
        yield Statement("skipped", f"{each.runtime}. Install it with: {each.install}")


def _skipped_verdicts(found: AnyResults) -> Iterator[CaseVerdict]:
    for each in found.skipped:
        message = f"not installed. Install it with: {each.install}"
        yield CaseVerdict(f"{each.runtime} {each.artifact}", Outcome.SKIPPED, message=message)


def name_matches(artifact: str, names: Sequence[NameMatch]) -> str:
    """Returns the matches of an artifact's names and the model's, with the reason of each."""
    pairs = ", ".join(f"{each.kind} {each.model!r} is {each.artifact!r}" for each in names)
    by_order = " and ".join(repr(each.model) for each in names if each.by_order)
    order = f", but {by_order} only by order" if by_order else ""
    return f"{artifact} has other names than the model: {pairs}. They were matched by type and shape{order}."
