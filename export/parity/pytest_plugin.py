"""A fixture for a user's own suite of pytest: `def test(parity): parity(model, "m.onnx")`.

pytest loads this module in every run of every project that has the package installed, so it imports nothing heavy.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keras_pe.export.parity.parity_report import ParityReport


@pytest.fixture(scope="session")
def parity() -> "Callable[..., ParityReport]":
    """Returns a function like `assert_parity`, which fails the test if an artifact differs from the model."""
    from keras_pe.export.parity.check_parity import assert_parity

    def check(*arguments: Any, **keywords: Any) -> "ParityReport":
        __tracebackhide__ = True
        return assert_parity(*arguments, **keywords)

    return check
