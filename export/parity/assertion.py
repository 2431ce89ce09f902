"""One line for a user's own test suite."""

from collections.abc import Sequence
from typing import Any

from keras_pe.export.parity.check import check_parity
from keras_pe.export.parity.references.sources import Source
from keras_pe.export.parity.results import ParityReport


def assert_parity(model: Any, artifacts: Source | Sequence[Source] = (), **arguments: Any) -> ParityReport:
    """Raises AssertionError, with the report's worst findings, unless `check_parity` passes.

    Args:
        model: As in `check_parity`.
        artifacts: As in `check_parity`.
        **arguments: The keyword arguments of `check_parity`.

    Returns:
        The report that passed.
    """
    report = check_parity(model, artifacts, **arguments)
    if not report.passed:
        raise AssertionError(str(report))
    return report
