"""Writes docs/versions.md from keras_pe/tried_versions.toml and the bounds of pyproject.toml.

Usage: python docs/versions.py
"""

import itertools
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from keras_pe.tried_versions import tried_versions

ROOT = Path(__file__).parent.parent

_INTRODUCTION = """\
<!-- Written by docs/versions.py from keras_pe/tried_versions.toml and pyproject.toml. -->
# Versions

Every test of this release ran on the versions that were tried. Lower bounds are the oldest of them, or the oldest with
what is used here. Upper bounds stand where a package announces that it will change what is used. An export that a newer
version breaks is refused by the run before it is published, so that a wide bound may cost an error, never a wrong file;
a weekly run on the newest versions (`.ci/run --newest`) finds the break before most users do. The README's commands
install what was tried, with all that it needs: `constraints.txt`, which `.ci/constraints` writes.

| package | tried | allowed | why it stops there | which tests would notice |
| --- | --- | --- | --- | --- |
"""

_FINDINGS = """
## What a new version changed

- onnxruntime 1.32.0: `Pad_Fusion` no longer takes padded zeros for the padding of a MaxPool. Files that this package
  writes are not concerned, since they avoid what 1.31.1 gets wrong. Its other faults are there as before
  ([upstream.md](upstream.md)).
"""


def allowed() -> dict[str, str]:
    """Returns the bounds of each package that is required, by its extras or not, and of Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    bounds = {requirement.name: requirement.specifier for requirement in map(Requirement, listed)}
    bounds["python"] = SpecifierSet(project["requires-python"])
    return {name: ", ".join(sorted(map(str, bound), reverse=True)) for name, bound in bounds.items()}


def page() -> str:
    """Returns the page."""
    bounds = allowed()
    rows = [
        f"| {row.name} | {', '.join(row.tried)} | {bounds.get(row.name) or 'any'} | {row.bound} | `{row.noticed_by}` |"
        for row in tried_versions()
    ]
    return _INTRODUCTION + "\n".join(rows) + "\n" + _FINDINGS


if __name__ == "__main__":
    (ROOT / "docs" / "versions.md").write_text(page())
