"""A report for the terminal: its text in the terminal's width, the verdicts in color."""

from rich.text import Text

from keras_pe.export.parity.reports.text import WIDTH, render_text
from keras_pe.export.results import ParityReport


def render(report: ParityReport, width: int = WIDTH) -> Text:
    """Returns what rich prints, for a terminal of so many columns."""
    return highlighted(render_text(report, width), "cause", "proof", "worst", "error")


def highlighted(content: str, *labels: str) -> Text:
    """Returns a text with its verdicts in color, and in bold the labels that a line begins with."""
    text = Text(content, no_wrap=True, overflow="ignore")
    for pattern, style in (
        (r"\bFAILED\b", "bold red"),
        (r"\bpassed\b", "bold green"),
        (rf"(?m)^ +({'|'.join(labels)}):", "bold"),
    ):
        text.highlight_regex(pattern, style)
    return text
