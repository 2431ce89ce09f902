"""The report of a data set for the terminal: its text in the terminal's width, the verdicts in color."""

from rich.text import Text

from keras_pe.export.parity.dataset.reports.text import WIDTH, to_text
from keras_pe.export.parity.dataset.results import DatasetReport
from keras_pe.export.parity.reports.terminal import highlighted


def render(report: DatasetReport, width: int = WIDTH) -> Text:
    """Returns what rich prints, for a terminal of so many columns."""
    return highlighted(to_text(report, width), "cause", "worst", "error", "stopped")
