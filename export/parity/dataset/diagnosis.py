"""The worst rows of a runtime once more, by the check that looks inside: where they part, why, and a bundle of them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_pe.export.parity.check import check_parity
from keras_pe.export.parity.dataset.job import Job, Target
from keras_pe.export.parity.dataset.statistics.runtime import RuntimeStatistics
from keras_pe.export.parity.dataset.statistics.worst import Severity, WorstRow
from keras_pe.export.parity.results import Array, ParityReport

Batch = Mapping[str, Array]


def diagnose(
    model: Any, job: Job, target: Target, found: RuntimeStatistics, batch_of: Callable[[WorstRow], Batch]
) -> ParityReport | None:
    """Returns the check of a runtime's worst rows, None where no row fails.

    The rows that fail are fed together as far as they are of one shape. Where they pass like that, the difference is
    one of the batch that the worst of them stood in, and that batch is fed as it was.

    Args:
        model: The reference, as the caller gave it.
        job: What was run.
        target: The artifact in its runtime.
        found: What was counted.
        batch_of: Returns the inputs of the batch that a row stood in.
    """
    failing = [row for row in found.worst if row.severity > Severity.AGREES]
    if not failing:
        return None
    report = _check(model, job, target, _together(failing))
    if report.passed:
        report = _check(model, job, target, batch_of(failing[0]))
    return report


def _check(model: Any, job: Job, target: Target, inputs: Batch) -> ParityReport:
    return check_parity(
        model,
        target.path,
        inputs=[inputs],
        runtimes=[target.spec],
        input_signature=job.input_signature,
        timeout=job.timeout,
    )


def _together(rows: list[WorstRow]) -> Batch:
    """Returns the worst row, and those after it that have its shapes, as one batch."""
    shapes = {name: array.shape for name, array in rows[0].inputs.items()}
    alike = [row for row in rows if {name: array.shape for name, array in row.inputs.items()} == shapes]
    return {name: np.stack([row.inputs[name] for row in alike]) for name in shapes}
