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

All tests of this release passed on the tried versions. A lower bound is the oldest version with the features that this
package uses. An upper bound stands where a package announces a change of these features. An export runs its file before
it is published, so a version that breaks the export causes an error, never a wrong file. A weekly run on the newest
versions (`.ci/run --newest`) finds most such breaks first. The README's commands install the tried versions with all
that they need, from `constraints.txt`, which `.ci/constraints` writes.

| package | tried | allowed | why it stops there | which tests would notice |
| --- | --- | --- | --- | --- |
"""

_OLDER = """
## Older versions

The layers take Keras from 3.8 on, exports from 3.13 on. Only some tests ran on them. The tests of layers
are `tests/layers` and `tests/test_tensor2tensor.py`. The tests of exports are `tests/export/onnx/test_exporter.py`,
`test_keras_operations.py`, `test_lookup_tables.py`, `test_precomputed_operators.py` and `handlers`,
`tests/export/test_layers_arrive.py`, `formats/test_saved_model.py` and `pipeline/test_smoke_test.py`. `.ci/run` runs
the tests of layers on the oldest allowed versions.

| tests of | versions | result |
| --- | --- | --- |
| layers | Keras 3.8.0, TensorFlow 2.18.1, NumPy 2.0.0 | all pass except two that need Keras 3.13 |
| layers | Keras 3.10.0, TensorFlow 2.19.1, NumPy 2.1.3 | all pass except two that need Keras 3.13 |
| layers | Keras 3.12.0, TensorFlow 2.20.0, NumPy 2.4.6 | all pass except two that need Keras 3.13 |
| layers | Keras 3.14.0, TensorFlow 2.20.0, NumPy 2.4.6 | all pass |
| exports | Keras 3.13.2, TensorFlow 2.20.0, onnx 1.23.2, onnxruntime 1.31.1 | all that this Keras supports pass |
| exports | Keras 3.14.0, TensorFlow 2.20.0, onnx 1.23.2, onnxruntime 1.31.1 | all that this Keras supports pass |
| exports | Keras 3.15.1, TensorFlow 2.20.0, onnx 1.23.2, onnxruntime 1.30.0 | all pass |
| exports | Keras 3.15.1, TensorFlow 2.21.0, onnx 1.23.2, onnxruntime 1.30.0 | all pass |
| exports | Keras 3.15.1, TensorFlow 2.21.0, onnx 1.23.2, onnxruntime 1.31.1 | all pass |

An older version refuses a feature that it lacks, and names the version that has it. `None` in a list of positions, for
an axis without positions, needs Keras 3.13, and so does an export. Keras 3.13 has no `keras.ops.i0`, and 3.14 no
`keras.ops.erfc` and `keras.ops.segment_prod`. TensorFlow may be installed as `tensorflow-cpu` or `tf-nightly` as well.
"""

_FINDINGS = """
## What a new version changed

- onnxruntime 1.32.0: `Pad_Fusion` no longer takes padded zeros for the padding of a MaxPool. Files that this package
  writes are not concerned, since they avoid what 1.31.1 gets wrong. Its other faults are there as before
  ([upstream.md](upstream.md)).
"""


def bounds_of_packages() -> dict[str, str]:
    """Returns the bounds of each package that is required, by its extras or not, and of Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = itertools.chain(*project["optional-dependencies"].values(), project["dependencies"])  # the last one counts
    bounds = {requirement.name: requirement.specifier for requirement in map(Requirement, listed)}
    bounds["python"] = SpecifierSet(project["requires-python"])
    return {name: ", ".join(sorted(map(str, bound), reverse=True)) for name, bound in bounds.items()}


def page() -> str:
    """Returns the page."""
    bounds = bounds_of_packages()
    rows = [
        f"| {row.name} | {', '.join(row.tried)} | {bounds.get(row.name) or 'any'} | {row.bound} | `{row.noticed_by}` |"
        for row in tried_versions()
    ]
    return _INTRODUCTION + "\n".join(rows) + "\n" + _OLDER + _FINDINGS


if __name__ == "__main__":
    (ROOT / "docs" / "versions.md").write_text(page())
