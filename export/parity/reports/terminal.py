"""A report for the terminal: its text in the terminal's width, the verdicts in colour."""

from rich.text import Text

from keras_pe.export.parity.reports.text import WIDTH, render_text
from keras_pe.export.parity.results import ParityReport

_STYLES = {r"\bFAILED\b": "bold red", r"\bpassed\b": "bold green", r"^  (cause|proof|worst|error):": "bold"}


def render(report: ParityReport, width: int = WIDTH) -> Text:
    """Returns what rich prints, for a terminal of so many columns."""
    text = Text(render_text(report, width), no_wrap=True, overflow="ignore")
    for pattern, style in _STYLES.items():
        text.highlight_regex(f"(?m){pattern}", style)
    return text
