"""Conditions of `pytest.raises(..., check=...)` on the fields of errors."""

from collections.abc import Callable


def about(argument: str) -> Callable[[BaseException], bool]:
    """Returns whether an error names this argument in its field `argument`."""
    return lambda error: getattr(error, "argument", None) == argument
