"""The document of a report without a format: verdicts, sentences, tables and pictures."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal


class Outcome(Enum):
    """Outcome of a try."""

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    ERROR = "error"

    @staticmethod
    def of(passed: bool) -> "Outcome":
        """Returns PASSED or FAILED."""
        return Outcome.PASSED if passed else Outcome.FAILED


@dataclass(frozen=True)
class Mark:
    """A cell of a table that holds a verdict.

    Attributes:
        outcome: The verdict.
        text: Text after the mark, such as " (not loaded)".
    """

    outcome: Outcome
    text: str = ""

    def __str__(self) -> str:
        return self.outcome.value + self.text


Row = tuple[str | Mark, ...]


@dataclass(frozen=True)
class Statement:
    """A sentence.

    Attributes:
        label: Kind of the statement, such as "cause"; empty for a remark.
        text: The sentence.
    """

    label: str
    text: str


@dataclass(frozen=True)
class TextTable:
    """A table.

    Attributes:
        title: Title of the table.
        header: The names of its columns.
        rows: As many cells each as the header has.
        at_fault: The numbers of the rows that are to be seen first.
        excerpt: The numbers of the rows that a short form shows, all of them where it is None.
        note: A sentence to stand below.
        wide: Whether it has more columns than a terminal has room for.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    at_fault: tuple[int, ...] = ()
    excerpt: tuple[int, ...] | None = None
    note: str = ""
    wide: bool = False

    @property
    def short(self) -> tuple[Row, ...]:
        """The rows that a short form shows."""
        return self.rows if self.excerpt is None else tuple(self.rows[number] for number in self.excerpt)


@dataclass(frozen=True)
class PictureAxis:
    """An axis of a picture.

    Attributes:
        label: Label of the axis, with its unit.
        scale: "linear" for positions, "share" for percentages from 0 on, "names" for things in a row. "log" is for
            sizes, and "count" for numbers of things; both axes are logarithmic.
        names: Values of the scale "names".
    """

    label: str
    scale: Literal["linear", "share", "log", "count", "names"]
    names: tuple[str, ...] = ()


Color = Literal["error", "noise", "limit"]


@dataclass(frozen=True)
class Steps:
    """Values over intervals that lie side by side.

    Attributes:
        label: Label of the bars.
        edges: The ends of the intervals, one more than there are values; an infinite value is drawn at the top.
        values: One for each interval.
        color: The part they play.
        filled: Whether the area below is filled; else the line is dotted.
    """

    label: str
    edges: tuple[float, ...]
    values: tuple[float, ...]
    color: Color = "error"
    filled: bool = True


@dataclass(frozen=True)
class Points:
    """Single values.

    Attributes:
        label: Label of the points.
        x: Positions along the axis; a value that is not finite stands at its end.
        y: Positions across.
        marker: "dot", "cross", "star" or "bar".
        color: The part they play.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marker: Literal["dot", "cross", "star", "bar"] = "dot"
    color: Color = "error"


@dataclass(frozen=True)
class Limit:
    """A line across a picture.

    Attributes:
        label: Meaning of the line.
        value: Position of the line.
        axis: The axis that it is a value of.
        dotted: Whether it is dotted; else it is dashed.
    """

    label: str
    value: float
    axis: Literal["x", "y"]
    dotted: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        title: Title of the picture.
        description: Description of the picture for readers who cannot see it.
        x: Its horizontal axis.
        y: Its vertical axis.
        content: Shapes, in drawing order.
        limits: The lines across it.
    """

    title: str
    description: str
    x: PictureAxis
    y: PictureAxis
    content: tuple[Steps | Points, ...]
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True)
class Part:
    """The section of one checked artifact or runtime.

    Attributes:
        title: Title of the section.
        passed: Its verdict.
        statements: Its statements, the most important first.
        notes: Further facts, in small print.
        tables: Its figures.
        pictures: Its pictures.
        is_open: Whether a page shows it without being asked.
    """

    title: str
    passed: bool
    statements: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[TextTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    is_open: bool = False


@dataclass(frozen=True)
class CaseVerdict:
    """A test of a suite.

    Attributes:
        name: Name of the test.
        outcome: Outcome of the test.
        kind: Kind of failure or error, in a word.
        message: A sentence; empty where it passed.
        details: More of them.
    """

    name: str
    outcome: Outcome
    kind: str = ""
    message: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """The verdicts on one thing that was checked.

    Attributes:
        name: Name of the suite.
        verdicts: One for each thing that was tried.
        seconds: How long it took.
        properties: Further facts, by name.
    """

    name: str
    verdicts: tuple[CaseVerdict, ...]
    seconds: float = 0.0
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes:
        title: Title of the report.
        passed: Whether it holds.
        summary: Sentences about the whole check.
        parts: One for each thing that was checked.
        overview: A row for each part, in their order.
        tables: Others that say something of several parts.
        remarks: Statements beside the sections.
        appendix: Tables for whoever wants to know how it was done.
        suites: The verdicts one by one.
        seconds: How long it took.
    """

    title: str
    passed: bool
    summary: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    overview: TextTable = TextTable("", (), ())
    tables: tuple[TextTable, ...] = ()
    remarks: tuple[Statement, ...] = ()
    appendix: tuple[TextTable, ...] = ()
    suites: tuple[Suite, ...] = ()
    seconds: float = 0.0
