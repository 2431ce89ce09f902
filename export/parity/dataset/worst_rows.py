"""The worst rows once more, by the check that looks inside: where the artifact parts from the model, and why.

What it returns is a report like any other, so `write_bundle` makes of it what `--replay` runs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.parity.check import check_parity
from keras_pe.export.parity.data.batching import fill_up, fixed_size
from keras_pe.export.parity.parity_report import ParityReport
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics, Severity, WorstRow
from keras_pe.export.parity.work.job import Job, Target
from keras_pe.export.results import Array


def diagnose(
    model: Any,
    job: Job,
    found: Sequence[tuple[Target, RuntimeStatistics]],
    takes: Sequence[TensorInfo],
    batch_of: Callable[[WorstRow], Mapping[str, Array]],
    seconds: float,
) -> ParityReport | None:
    """Returns the check of the worst rows of the runtimes that fail, None where none does.

    The rows that fail are fed together as far as they are of one shape. Where a runtime passes like that, the
    difference is one of the batch that its worst row stood in, and that batch is fed as it was.

    Args:
        model: The reference, as the caller gave it.
        job: What was run.
        found: What was counted for each artifact in its runtime.
        takes: The inputs of the model, whose batch is filled up where it is static.
        batch_of: Returns the inputs of the batch that a row stood in.
        seconds: What the search for a cause may take for each runtime.
    """
    failing = [(target, _failing(statistics)) for target, statistics in found if _failing(statistics)]
    if not failing:
        return None
    report = _check(model, job, failing, [fill_up(_together(rows, takes), takes) for _, rows in failing], seconds)
    if report.passed:
        report = _check(model, job, failing, [fill_up(batch_of(rows[0]), takes) for _, rows in failing], seconds)
    return report


def _failing(statistics: RuntimeStatistics) -> list[WorstRow]:
    return [row for row in statistics.worst if row.severity > Severity.AGREES]


def _check(
    model: Any,
    job: Job,
    failing: Sequence[tuple[Target, list[WorstRow]]],
    cases: Sequence[Mapping[str, Array]],
    seconds: float,
) -> ParityReport:
    return check_parity(
        model,
        list(dict.fromkeys(target.path for target, _ in failing)),
        inputs=list(cases),
        runtimes=list({target.spec.name: target.spec for target, _ in failing}.values()),
        input_signature=job.input_signature,
        timeout=job.timeout,
        diagnosis_seconds=seconds,
    )


def _together(rows: list[WorstRow], takes: Sequence[TensorInfo]) -> Mapping[str, Array]:
    """Returns the worst row, and those after it that have its shapes, as one batch that the model takes."""
    shapes = {name: array.shape for name, array in rows[0].inputs.items()}
    alike = [row for row in rows if {name: array.shape for name, array in row.inputs.items()} == shapes]
    first = alike[: fixed_size(takes)]
    return {name: np.stack([row.inputs[name] for row in first]) for name in shapes}
