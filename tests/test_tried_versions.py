"""The table of tried versions, the bounds of pyproject.toml, constraints.txt and CI agree."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from keras_pe.tried_versions import TriedVersions, tried_versions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
# The other extras draw, print and test.
FOR_USERS = ["export", "litert", "quantize", "openvino", "data", "dask", "ray", "jax"]

every_row = pytest.mark.parametrize("row", tried_versions(), ids=lambda row: row.name)


def bounds_with(*extras: str) -> dict[str, SpecifierSet]:
    lines = PROJECT["dependencies"] + [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    requirements = [Requirement(line) for line in lines]
    return {each.name: each.specifier for each in requirements if each.name != "keras-pe"}


@every_row
def test_tried_versions_are_within_the_bounds(row: TriedVersions) -> None:
    bounds_of_packages = {
        **bounds_with(row.extra or "test"),
        "python": SpecifierSet(PROJECT["requires-python"]),
        "torch": SpecifierSet(),
    }
    assert row.tried
    assert list(row.tried) == sorted(row.tried, key=Version)
    assert [version for version in row.tried if version not in bounds_of_packages[row.name]] == []
    assert (ROOT / row.noticed_by).exists()


def test_the_constraints_install_the_newest_version_that_was_tried_of_every_package_for_users() -> None:
    pinned: dict[str, set[str]] = {}
    for each in PINNED:
        pinned.setdefault(each.name, set()).add(str(each.specifier).removeprefix("=="))
    rows = [row for row in tried_versions() if row.name not in ("python", "torch")]  # no extra installs PyTorch
    assert set(bounds_with(*FOR_USERS)) - {"jaxlib"} <= {row.name for row in rows}
    assert [row for row in rows if row.tried[-1] not in pinned[row.name]] == [], "run .ci/constraints"
    assert [row for row in rows if not pinned[row.name] <= set(row.tried)] == []
    assert set(bounds_with("test", "demo", "lint", *FOR_USERS)) <= set(pinned), "run .ci/constraints"
    bounds_of_packages = bounds_with(*PROJECT["optional-dependencies"])
    outside = {
        name: versions
        for name, versions in pinned.items()
        if not all(version in bounds_of_packages.get(name, SpecifierSet()) for version in versions)
    }
    assert outside == {}


@pytest.mark.upstream
def test_every_package_that_is_installed_with_this_one_is_constrained() -> None:
    """Run where the README's second command has installed: a version that nobody named may be another one tomorrow."""
    wanted, seen = [Requirement("keras-pe[test]")], set[str]()
    pinned = {each.name: each.specifier for each in PINNED if each.marker is None or each.marker.evaluate()}
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if name in seen and not requirement.extras:
            continue
        seen.add(name)
        for line in importlib.metadata.requires(name) or ():
            each = Requirement(line)
            if each.marker is None or any(
                each.marker.evaluate({"extra": extra}) for extra in requirement.extras or ("",)
            ):
                wanted.append(each)
    seen.remove("keras-pe")
    found = {name: importlib.metadata.version(name) for name in seen}
    assert len(found) > 50
    assert {
        name: version for name, version in found.items() if version not in pinned.get(name, SpecifierSet("<0"))
    } == {}


def test_the_classifiers_and_ci_name_the_pythons_that_were_tried() -> None:
    (python,) = (row for row in tried_versions() if row.name == "python")
    minors = [version.rpartition(".")[0] for version in python.tried]
    prefix = "Programming Language :: Python :: "
    assert [line.removeprefix(prefix) for line in PROJECT["classifiers"] if line.startswith(prefix)] == minors
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == minors
