"""Where the time of a check went, as a table of plain text."""

from collections.abc import Sequence
from pathlib import Path

from keras_pe.export.parity.reports.cells import Row
from keras_pe.export.parity.reports.text import aligned
from keras_pe.export.results import ParityReport, Stage


def render_times(report: ParityReport, before: Sequence[Stage] = ()) -> str:
    """Returns the stages with their seconds, the longest marked.

    Args:
        report: The check.
        before: What came before it, such as the import of Keras.
    """
    inside = {f"{each.runtime} {Path(each.artifact).name}".strip(): each.seconds for each in report.results}
    stages = [*before, *report.stages]
    longest = max(stages, key=lambda stage: stage.seconds, default=None)
    rows: list[Row] = [("stage", "seconds", "processor", "in the runtime", "")]
    for stage in stages:
        runtime = f"{inside[stage.name]:.2f}" if stage.name in inside else ""
        mark = "longest" if stage is longest else ""
        rows.append((stage.name, f"{stage.seconds:.2f}", f"{stage.processor_seconds:.2f}", runtime, mark))
    seconds, processor = sum(s.seconds for s in stages), sum(s.processor_seconds for s in stages)
    rows.append(("in all", f"{seconds:.2f}", f"{processor:.2f}", f"{sum(inside.values()):.2f}", ""))
    return "\n".join(aligned(rows))
