"""The document of a check, filled in one way whatever was fed: the cases of a sweep, or the rows of a data set."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from keras_pe.export.parity.presentation.remedies import remedy
from keras_pe.export.parity.reports.document import (
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
    """What there is to say of one artifact in one runtime, or in variants of it that say the same.

    Attributes:
        name: What ran.
        artifact: The artifact's name.
        passed: The verdict.
        why: What follows it in the overview, such as " (not loaded)".
        figures: The cells after it.
        short: What follows it where artifacts go down and runtimes across.
        statements: What is wrong, where it has failed.
        notes: What is to be said of it in any case.
        tables: What was counted and compared.
        pictures: The same to look at.
        names: The inputs and outputs that the artifact calls otherwise.
        is_file: Whether it is a file that was checked, and not the model itself.
    """

    name: str
    artifact: str
    passed: bool
    why: str
    figures: tuple[str, ...]
    short: str
    statements: tuple[Statement, ...]
    notes: tuple[str, ...]
    tables: tuple[TextTable, ...]
    pictures: tuple[Picture, ...]
    names: tuple[NameMatch, ...] = ()
    is_file: bool = True


@dataclass(frozen=True)
class Frame:
    """What stands around the subjects of a report.

    Attributes:
        title: What was checked.
        passed: Whether it holds.
        summary: What was done, in sentences.
        columns: The overview's, from the verdict on.
        compared: How many values or rows were.
        remarks: What is to be said beside the subjects.
        tables: What was fed.
        versions: What stands with the versions of packages: what it is, and its value.
        suites: The verdicts one by one.
    """

    title: str
    passed: bool
    summary: tuple[str, ...]
    columns: tuple[str, ...]
    compared: int
    remarks: tuple[Statement, ...]
    suites: tuple[Suite, ...]
    tables: tuple[TextTable, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()


def fill(found: AnyResults, frame: Frame, subjects: Sequence[Subject]) -> Document:
    """Returns the document of a check."""
    first = next((each for each in subjects if each.is_file), subjects[0] if subjects else None)
    date = (("date", found.date),) if found.date else ()
    return Document(
        title=frame.title,
        passed=frame.passed,
        summary=frame.summary,
        parts=tuple(_part(each, frame.passed and each is first) for each in subjects),
        overview=overview(frame.columns, subjects),
        tables=(matrix(subjects),),
        remarks=(*frame.remarks, *_common_remarks(frame, subjects)),
        appendix=(
            *frame.tables,
            TextTable("Versions", ("package", "version"), (*found.versions.items(), *frame.versions)),
            TextTable("Date and files", ("file", "SHA-256"), (*date, *found.files.items())),
        ),
        suites=frame.suites,
        seconds=found.seconds,
    )


def _part(subject: Subject, is_shown: bool) -> Part:
    return Part(
        title=f"{subject.name} on {subject.artifact}",
        passed=subject.passed,
        statements=() if subject.passed else subject.statements,
        notes=subject.notes,
        tables=subject.tables,
        pictures=subject.pictures,
        is_open=is_shown or not subject.passed,
    )


def overview(columns: tuple[str, ...], subjects: Sequence[Subject]) -> TextTable:
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


def _common_remarks(frame: Frame, subjects: Iterable[Subject]) -> Iterator[Statement]:
    named = (name_matches(each.artifact, each.names) for each in subjects if each.names)
    yield from (Statement("", matches) for matches in dict.fromkeys(named))
    if not frame.compared:
        yield Statement("", "nothing was compared, and a check that compared nothing has failed")


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
    """Returns a cause, where it is and what speaks for it."""
    layer = f" in layer {finding.layer!r}" if finding.layer else ""
    output = f" in output {finding.output!r}" if finding.output else ""
    absent = f" Absent with it: {', '.join(map(repr, finding.absent))}." if finding.absent else ""
    return f"{finding.cause}{layer}{output}. {finding.evidence}{absent}"


def beside(found: AnyResults) -> tuple[str, ...]:
    """Returns what the user accepts beside the strict law, in a sentence; nothing where that alone has judged."""
    return () if found.allowance.is_none else (f"Accepted beside that: {found.allowance}.",)


def name_matches(artifact: str, names: Sequence[NameMatch]) -> str:
    """Returns which of an artifact's names was taken for which of the model's, and what told so."""
    pairs = ", ".join(f"{each.kind} {each.model!r} is {each.artifact!r} there" for each in names)
    by_order = " and ".join(repr(each.model) for each in names if each.by_order)
    order = f", {by_order} by order alone" if by_order else ""
    return f"{artifact} has other names than the model: {pairs}; by type and shape{order}"
