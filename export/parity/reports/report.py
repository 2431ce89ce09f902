"""The interface of all reports: text, notebook form, plain values and files."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from keras_pe.display import did_you_mean, printable
from keras_pe.export.dependencies import require
from keras_pe.export.errors import check_type
from keras_pe.export.parity.reports import html, markdown, text
from keras_pe.export.parity.reports.document import Document, Outcome
from keras_pe.export.parity.reports.json import Published
from keras_pe.export.publishing.destination import check_file_path
from keras_pe.export.publishing.staging import staged_file

# The form that a suffix names, and the packages that it needs.
_FORMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    ".html": ("html", ("jinja2", "matplotlib")),
    ".json": ("json", ()),
    ".md": ("markdown", ()),
    ".xml": ("junit", ("junitparser",)),
}


class Report:
    """Something that was found and can be read; a subclass says what there is to read.

    Attributes:
        published: The kind of JSON document that it is written as.
    """

    published: ClassVar[Published]

    def document(self) -> Document:
        """Returns what the report says, in sentences, tables and pictures."""
        raise NotImplementedError

    def render(self, form: str) -> str:
        """Returns the report as "html", "json", "junit" or "markdown".

        Raises:
            ValueError: If the suffix has no form.
        """
        known = [each for each, _ in _FORMS.values()]
        if form not in known:
            raise ValueError(f"Unknown form {form!r}. Choose one of: {', '.join(known)}.{did_you_mean(form, known)}")
        if form == "json":
            return self.published.render(self)
        found: str = importlib.import_module(f"{__package__}.{form}").render(self.document())
        return found

    def save(self, path: str | Path) -> None:
        """Writes the report in the form that the suffix names: `.html`, `.json`, `.md` or `.xml` (JUnit).

        The file is written beside its destination and renamed: an older report stays until the new one is whole.

        Raises:
            ValueError, ImportError: As `check_report_path`.
            OSError: If the file cannot be written. The previous file stays.
        """
        path = Path(path).absolute()
        check_report_path(path)
        # A file name that is not UTF-8 is a lone surrogate in a text; it must not keep the report from being written.
        content = self.render(_FORMS[path.suffix][0]).encode("utf-8", errors="backslashreplace")
        with staged_file(path, "The report") as part:
            part.write_bytes(content)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON's plain values; NaN and infinities as the texts "NaN", "Infinity", "-Infinity"."""
        return self.published.plain(self)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Returns the JSON Schema of the report as JSON."""
        return cls.published.schema()

    def __str__(self) -> str:
        """Returns what the terminal shows of it, 100 columns wide."""
        return text.render_text(self.document())

    def __repr__(self) -> str:
        document = self.document()
        title = printable(" ".join(document.title.split()))
        return f"<{type(self).__name__}: {title}: {Outcome.of(document.passed).value}>"

    def _repr_html_(self) -> str:
        return html.render_piece(self.document())

    def _repr_markdown_(self) -> str:
        return markdown.render(self.document())


def check_report_path(path: Path) -> None:
    """Raises the errors of `save` without writing; call it before a check that takes minutes.

    Raises:
        ValueError: If no kind of report has this suffix.
        ImportError: If a package that the report needs is not installed.
        OSError: If a folder, a pipe or a device has this name, or no file can have it.
    """
    if path.suffix not in _FORMS:
        hint = did_you_mean(path.suffix, _FORMS)
        raise ValueError(f"A report's name must end in one of: {', '.join(_FORMS)}. Received: {path}.{hint}")
    check_file_path(path, "A report")
    require("write_report", *_FORMS[path.suffix][1], extra="report")


def write_report(report: Report, path: str | Path) -> None:
    """Writes a report in the format of the suffix, as `save` does: `.html`, `.json`, `.md` or `.xml` (JUnit).

    Raises:
        TypeError: If `report` is not a report.
        ValueError, ImportError: As `check_report_path`.
        OSError: If the file cannot be written. The previous file stays.
    """
    check_type("report", report, Report)
    report.save(path)
