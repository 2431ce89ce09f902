"""How long the parts of a check may take: the same for every check."""

from keras_pe.export.parity.diagnosis.budget import DIAGNOSIS_SECONDS as DIAGNOSIS_SECONDS

TIMEOUT = 120.0
"""Seconds that a runtime may take to load, or for one answer, unless told otherwise."""


def check_seconds(timeout: float, diagnosis_seconds: float) -> None:
    """Raises ValueError unless a runtime may take some time, and a diagnosis some or none."""
    if not timeout > 0:
        raise ValueError(f"`timeout` must be above 0 seconds. Received: timeout={timeout!r}.")
    if not diagnosis_seconds >= 0:
        raise ValueError(f"`diagnosis_seconds` must be at least 0. Received: diagnosis_seconds={diagnosis_seconds!r}.")
