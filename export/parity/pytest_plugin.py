"""For a user's own test suite: `assert_parity`, and with pytest a fixture, `def test(parity): parity(model, "m.onnx")`.

pytest loads this module in every run of every project that has the package installed, so it imports nothing heavy.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_pe.export.comparison.references.opening import Source
    from keras_pe.export.parity.parity_report import ParityReport
    from keras_pe.protocols import Model


def assert_parity(
    model: "Model | Source", artifacts: "Source | Sequence[Source]" = (), **arguments: Any
) -> "ParityReport":
    """Raises AssertionError, with the report, unless `check_parity` passes.

    Args:
        model: As in `check_parity`.
        artifacts: As in `check_parity`.
        **arguments: The keyword arguments of `check_parity`.

    Returns:
        The report that passed.
    """
    from keras_pe.export.parity.check import check_parity

    report = check_parity(model, artifacts, **arguments)
    if not report.passed:
        raise AssertionError(str(report))
    return report


with contextlib.suppress(ImportError):  # the fixture is for pytest, and the function for whatever else runs tests
    import pytest

    @pytest.fixture(scope="session")
    def parity() -> "Callable[..., ParityReport]":
        """Checks artifacts against a model: takes the arguments of `assert_parity`, and fails the test as it does."""

        def check(*arguments: Any, **keywords: Any) -> "ParityReport":
            __tracebackhide__ = True
            return assert_parity(*arguments, **keywords)

        return check
