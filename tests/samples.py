"""Long tables of cases: the slow run takes a fixed sample of each, the exhaustive one the rest."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sample_cases(
    cases: Iterable[Any], sample: Collection[Any], mark: pytest.MarkDecorator = pytest.mark.slow
) -> list[Any]:
    """Returns the cases as parameters of a test: those of the sample with the mark, the others exhaustive."""
    return [pytest.param(case, marks=mark if case in sample else pytest.mark.exhaustive) for case in cases]
