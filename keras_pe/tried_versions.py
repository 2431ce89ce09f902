"""The table of tested versions, for `keras-pe doctor`, the tests and docs/versions.md."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class TriedVersions:
    """Known facts about the versions of one package, or of Python.

    Attributes:
        name: The package as it is installed, or "python".
        tried: The versions that every test ran on, oldest first.
        bound: Why pyproject.toml stops where it does.
        noticed_by: The tests that fail first when a newer version changes what is used here.
        extra: The extra of this package that installs it; None where the package itself does, or nothing.
    """

    name: str
    tried: tuple[str, ...]
    bound: str
    noticed_by: str
    extra: str | None = None


@cache
def tried_versions() -> tuple[TriedVersions, ...]:
    """Returns the table, Python first."""
    table = tomllib.loads(files("keras_pe").joinpath("tried_versions.toml").read_text("utf-8"))
    rows = {"python": table["python"], **table["packages"]}
    return tuple(TriedVersions(name, **{**row, "tried": tuple(row["tried"])}) for name, row in rows.items())
