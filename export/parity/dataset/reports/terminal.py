"""The report of a data set for the terminal: its text in the terminal's width, the verdicts in color."""

from rich.text import Text

from keras_pe.export.parity.dataset.reports.text import WIDTH, to_text
from keras_pe.export.parity.dataset.results import DatasetReport

_STYLES = {r"\bFAILED\b": "bold red", r"\bpassed\b": "bold green", r"^ +(cause|worst|error|stopped):": "bold"}


def render(report: DatasetReport, width: int = WIDTH) -> Text:
    """Returns what rich prints, for a terminal of so many columns."""
    text = Text(to_text(report, width), no_wrap=True, overflow="ignore")
    for pattern, style in _STYLES.items():
        text.highlight_regex(f"(?m){pattern}", style)
    return text
