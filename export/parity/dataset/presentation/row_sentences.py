"""The sentences of a data set's report, in the user's terms."""

from collections.abc import Iterator

import numpy as np

from keras_pe.export.parity.dataset.results import DatasetResult, DatasetResults
from keras_pe.export.parity.presentation.filling import beside, causes, skipped
from keras_pe.export.parity.reports.document import Statement
from keras_pe.export.parity.statistics.confidence import rate
from keras_pe.export.parity.statistics.runtime_statistics import Severity, WorstRow
from keras_pe.export.results import Array

_SHOWN = 6


def summary(found: DatasetResults) -> tuple[str, ...]:
    """Returns what was measured, and how sure one can be of what was found where no verdict says so."""
    rows = f"{found.rows:,}" + (f" of {found.total:,}" if found.total not in (None, found.rows) else "")
    measured = f"{rows} rows of {found.data}, measured against {found.reference}, in {found.seconds:.1f} s."
    measured = " ".join([measured, *beside(found)])
    bound = max((result.upper_bound_95 for result in found.results if result.statistics.rows), default=1.0)
    if bound >= 0.5 or not found.passed:
        return (measured,)
    return (measured, f"With 95 % confidence fewer than {rate(bound)} of all rows like these fail.")


def statements(result: DatasetResult) -> Iterator[Statement]:
    """Yields what there is to say of one runtime."""
    yield Statement("verdict", result.verdict)
    for problem, first in result.statistics.problems.items():
        yield Statement("error", f"{problem}, first in row {first:,}")
    for output in result.outputs:
        if output.statistics.ties:
            ties = f"{output.output}: {output.statistics.ties:,} of the changed rows"
            yield Statement("ties", f"{ties} have a margin within 8 times the model's own error")
    for row in failing(result)[:3]:
        yield Statement("worst", describe_row(row))


def remarks(found: DatasetResults) -> Iterator[Statement]:
    """Yields what there is to say of the check as a whole."""
    yield from causes(found.diagnosis.findings if found.diagnosis is not None else ())
    yield from skipped(found)
    if found.stopped_early:
        yield Statement("stopped", f"after {found.rows:,} rows: as many as stop_after says have failed")
    if found.reused_rows:
        yield Statement("checkpoint", f"the results of {found.reused_rows:,} rows stood in the checkpoint")


def failing(result: DatasetResult) -> list[WorstRow]:
    """Returns the worst rows as far as they fail, the worst first."""
    return [row for row in result.statistics.worst if row.severity > Severity.AGREES]


def describe_row(row: WorstRow) -> str:
    """Returns one of the worst rows as a sentence."""
    how = {
        Severity.AGREES: "agrees",
        Severity.FAILED: "fails",
        Severity.CLASH: "has a NaN or an infinity on one side only",
        Severity.NO_ANSWER: "has no answer",  # why is said of them all, once
    }[row.severity]
    values = [f"{name} {expected} -> {actual}" for name, expected, actual in shown_values(row)]
    return f"row {row.row:,} ({row.place}) {how}" + (f": {'; '.join(values)}" if values else "")


def shown_values(row: WorstRow) -> Iterator[tuple[str, str, str]]:
    """Yields each output that was answered, with the values around the largest difference: expected, and actual."""
    for name, actual in row.actual.items():
        around = _largest_difference(row.expected[name], actual)
        yield name, short(row.expected[name], around), short(actual, around)


def short(array: Array, around: int = 0) -> str:
    """Returns a few values of an array: the first, or those around one."""
    values = array.ravel()
    start = max(0, min(around - _SHOWN // 2, values.size - _SHOWN))
    some = values[start : start + _SHOWN].tolist()
    shown = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in some]
    before, after = ["..."] * (start > 0), ["..."] * (start + _SHOWN < values.size)
    return f"[{', '.join([*before, *shown, *after])}]"


def _largest_difference(expected: Array, actual: Array) -> int:
    """Returns the number of the value that differs most, 0 where the two cannot be told apart one by one."""
    if expected.shape != actual.shape or not expected.size:
        return 0
    if expected.dtype.kind in "OSU":
        return int(np.argmax(expected.ravel() != actual.ravel()))
    with np.errstate(invalid="ignore"):
        difference = np.abs(expected.ravel().astype(np.float64) - actual.ravel().astype(np.float64))
    return int(np.nan_to_num(difference, nan=np.inf).argmax())
