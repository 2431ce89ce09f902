"""For a user's own test suite: `assert_parity`, and with pytest a fixture, `def test(parity): parity(model, "m.onnx")`.

pytest loads this module in every run of every project that has the package installed, so it imports nothing heavy.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_pe.export.comparison.seconds import DIAGNOSIS_SECONDS, TIMEOUT

if TYPE_CHECKING:
    from keras_pe.export.comparison.inputs.cases import GivenInputs
    from keras_pe.export.comparison.references.opening import Source
    from keras_pe.export.parity.check import Progress
    from keras_pe.export.parity.parity_report import ParityReport
    from keras_pe.export.runtimes.runtime import RuntimeSpec
    from keras_pe.protocols import Model


def assert_parity(
    model: "Model | Source",
    artifacts: "Source | Sequence[Source]" = (),
    *,
    inputs: "GivenInputs | Sequence[GivenInputs] | None" = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    runtimes: "str | RuntimeSpec | Sequence[str | RuntimeSpec] | None" = None,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    require_coverage: bool = False,
    rtol: float = 0.0,
    atol: float | Mapping[str, float] = 0.0,
    precision: str | None = None,
    allow_changed: float = 0.0,
    timeout: float = TIMEOUT,
    diagnosis_seconds: float = DIAGNOSIS_SECONDS,
    progress: "Progress | bool | None" = None,
) -> "ParityReport":
    """Raises AssertionError, with the report, unless `check_parity` passes.

    Args:
        model, artifacts, inputs, ranges, runtimes, input_signature: As in `check_parity`.
        sizes, seed, require_coverage, rtol, atol, precision: As in `check_parity`.
        allow_changed, timeout, diagnosis_seconds, progress: As in `check_parity`.

    Returns:
        The report that passed.
    """
    from keras_pe.export.parity.check import check_parity

    report = check_parity(
        model,
        artifacts,
        inputs=inputs,
        ranges=ranges,
        runtimes=runtimes,
        input_signature=input_signature,
        sizes=sizes,
        seed=seed,
        require_coverage=require_coverage,
        rtol=rtol,
        atol=atol,
        precision=precision,
        allow_changed=allow_changed,
        timeout=timeout,
        diagnosis_seconds=diagnosis_seconds,
        progress=progress,
    )
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
