"""Where the time of a check went."""

from collections.abc import Sequence

from keras_pe.export.parity.reports.document import Row, TextTable
from keras_pe.export.results import CheckResults, Stage


def times(found: CheckResults, before: Sequence[Stage] = ()) -> TextTable:
    """Returns the stages with their seconds, the longest marked.

    Args:
        found: The check.
        before: What came before it, such as the import of Keras.
    """
    stages = [*before, *found.stages]
    longest = max(stages, key=lambda stage: stage.seconds, default=None)
    rows: list[Row] = []
    for stage in stages:
        runtime = "" if stage.runtime_seconds is None else f"{stage.runtime_seconds:.2f}"
        mark = "longest" if stage is longest else ""
        rows.append((stage.name, f"{stage.seconds:.2f}", f"{stage.processor_seconds:.2f}", runtime, mark))
    seconds, processor = sum(s.seconds for s in stages), sum(s.processor_seconds for s in stages)
    inside = sum(each.seconds for each in found.results)
    rows.append(("in all", f"{seconds:.2f}", f"{processor:.2f}", f"{inside:.2f}", ""))
    return TextTable("Times", ("stage", "seconds", "processor", "in the runtime", ""), tuple(rows))
