"""A pytest fixture: `def test_export(parity): parity(model, "model.onnx")`.

pytest loads this module in every run of every project that has the package installed, so it imports nothing heavy.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keras_pe.export.parity.results import ParityReport


@pytest.fixture(scope="session")
def parity() -> "Callable[..., ParityReport]":
    """Checks artifacts against a model: takes the arguments of `assert_parity`, and fails the test as it does."""

    def check(*arguments: Any, **keywords: Any) -> "ParityReport":
        __tracebackhide__ = True
        from keras_pe.export.parity.assertion import assert_parity

        return assert_parity(*arguments, **keywords)

    return check
