"""The table of the versions that were tried says what pyproject.toml allows, and names tests that are there."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from keras_pe.tried_versions import TriedVersions, tried_versions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_USERS = ("export", "litert", "openvino", "data", "dask", "ray", "jax")  # the other extras draw, print and test

every_row = pytest.mark.parametrize("row", tried_versions(), ids=lambda row: row.name)


def required(*extras: str) -> dict[str, SpecifierSet]:
    lines = PROJECT["dependencies"] + [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    requirements = [Requirement(line) for line in lines]
    return {each.name: each.specifier for each in requirements if each.name != "keras-pe"}


@every_row
def test_what_was_tried_may_be_installed(row: TriedVersions) -> None:
    extras = [row.extra] if row.extra else []
    allowed = {**required(*extras), "python": SpecifierSet(PROJECT["requires-python"]), "torch": SpecifierSet()}
    assert row.tried
    assert list(row.tried) == sorted(row.tried, key=Version)
    assert [version for version in row.tried if version not in allowed[row.name]] == []


def test_what_runs_a_model_was_tried() -> None:
    assert set(required(*FOR_USERS)) - {"jaxlib"} <= {row.name for row in tried_versions()}


@every_row
def test_a_bound_has_its_reason_and_the_tests_that_would_notice(row: TriedVersions) -> None:
    assert row.bound.endswith(".")
    assert (ROOT / row.noticed_by).exists()


def test_every_python_that_was_tried_is_a_classifier_and_none_else() -> None:
    (python,) = (row for row in tried_versions() if row.name == "python")
    prefix = "Programming Language :: Python :: 3."
    said = [line.removeprefix(prefix) for line in PROJECT["classifiers"] if line.startswith(prefix)]
    assert said == [version.split(".")[1] for version in python.tried]


def test_every_python_that_was_tried_is_checked_by_ci() -> None:
    (python,) = (row for row in tried_versions() if row.name == "python")
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    (matrix,) = re.findall(r"python: (\[.*\])", workflow)
    assert json.loads(matrix) == [".".join(version.split(".")[:2]) for version in python.tried]
