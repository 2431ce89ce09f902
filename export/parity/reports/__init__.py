"""A report as a file: JSON, JUnit XML, Markdown or one HTML page, by the suffix of its name."""

import difflib
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_pe.export.dependencies import require
from keras_pe.export.publishing.staging import staged_file

if TYPE_CHECKING:
    from keras_pe.export.parity.dataset.results import DatasetReport
    from keras_pe.export.results import ParityReport

# The module that renders a suffix, and the packages that it needs.
_RENDERERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    ".html": ("html", ("jinja2", "matplotlib")),
    ".json": ("json", ()),
    ".md": ("markdown", ()),
    ".xml": ("junit", ("junitparser",)),
}


def check_report_path(path: Path) -> None:
    """Raises what `write_report` would raise before it wrote anything: call it before a check that takes minutes.

    Raises:
        ValueError: If no kind of report has this suffix.
        ImportError: If a package that the report needs is not installed.
        IsADirectoryError: If a folder has this name.
    """
    if path.suffix not in _RENDERERS:
        near = difflib.get_close_matches(path.suffix, _RENDERERS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"A report's name must end in one of: {', '.join(_RENDERERS)}. Received: {path}.{hint}")
    if path.is_dir():
        raise IsADirectoryError(f"A report must be a file. Received: {path}, which is a folder.")
    require("write_report", *_RENDERERS[path.suffix][1], extra="report")


def write_report(report: "ParityReport | DatasetReport", path: str | Path) -> None:
    """Writes a report in the form that the suffix names: `.html`, `.json`, `.md` or `.xml` (JUnit).

    The file is written beside its destination and renamed: an older report stays until the new one is whole.

    Raises:
        ValueError, ImportError, IsADirectoryError: As `check_report_path`.
        OSError: If the file cannot be written. What stood there stays.
    """
    path = Path(path).absolute()
    check_report_path(path)
    # A file name that is not UTF-8 is a lone surrogate in a text; it must not keep the report from being written.
    content = render_report(report, _RENDERERS[path.suffix][0]).encode("utf-8", errors="backslashreplace")
    with staged_file(path, "The report") as part:
        part.write_bytes(content)


def render_report(report: "ParityReport | DatasetReport", form: str, **options: Any) -> Any:
    """Returns a report as "terminal", "json", "junit", "markdown" or "html": a text, but for the terminal.

    Args:
        report: Of a sweep or of a data set.
        form: The module that renders it.
        **options: Of the form: "terminal" takes the `width`.
    """
    from keras_pe.export.results import ParityReport

    home = __name__ if isinstance(report, ParityReport) else "keras_pe.export.parity.dataset.reports"
    return importlib.import_module(f"{home}.{form}").render(report, **options)
