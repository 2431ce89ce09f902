"""The faults of others that are worked around are in the versions that docs/upstream.md names, and in no others."""

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import pytest

from keras_pe.tried_versions import tried_versions
from tests.export.runtimes.external.present import need

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "upstream.md").read_text()
ELSEWHERE = {"onnxruntime-web", "litert.js", "jax2onnx"}  # outside this Python: the page names the versions


def heading(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the package of a heading, as it is installed, and the versions."""
    name, versions = re.fullmatch(r"(.+?) (\d.*)", text).groups()  # type: ignore[union-attr]
    return name.lower().replace("onnx runtime", "onnxruntime"), tuple(re.findall(r"[\d.]+\d", versions))


HEADINGS = [heading(text) for text in re.findall(r"^## (.+)$", PAGE, re.MULTILINE)]


def reproductions() -> tuple[list[str], list[Any]]:
    """Returns the page's definitions, and each reproduction with its package, the versions and the words before it."""
    definitions, found = [], []
    package, versions = "", ()
    texts_and_codes = re.split(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    for text, code in zip(texts_and_codes[::2], texts_and_codes[1::2], strict=False):
        for title in re.findall(r"^## (.+)$", text, re.MULTILINE):
            package, versions = heading(title)
        words = text.strip().rpartition("\n\n")[2].replace("\n", " ")
        if "\ndef " in code:
            definitions.append(code)
        else:
            found.append(pytest.param(package, versions, code, id=f"{package}: {words[:60]}"))
    return definitions, found


DEFINITIONS, REPRODUCTIONS = reproductions()


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for code in DEFINITIONS:
        exec(code, names)
    return names


@pytest.mark.upstream
@pytest.mark.filterwarnings("ignore")  # warnings of other packages about others
@pytest.mark.parametrize(("package", "versions", "code"), REPRODUCTIONS)
def test_a_fault_is_in_the_versions_that_are_named_and_in_no_other(
    package: str,
    versions: tuple[str, ...],
    code: str,
    names: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if package == "onnxruntime-web":
        need("onnxruntime_web[webgpu]")
        (installed,) = versions
    else:
        pytest.importorskip(package.replace("-", "_"))
        installed = importlib.metadata.version(package)
    monkeypatch.chdir(tmp_path)
    if installed in versions:
        exec(code, dict(names))
    else:
        with pytest.raises(AssertionError):  # otherwise the heading has to name this version as well
            exec(code, dict(names))


def test_every_reproduction_can_fail() -> None:
    assert all("assert " in case.values[2] for case in REPRODUCTIONS)
    assert {package for package, _ in HEADINGS} >= {"tf2onnx", "keras", "tensorflow", "onnxruntime", *ELSEWHERE}


def test_every_version_that_is_named_was_tried_and_may_be_installed() -> None:
    """Otherwise the workaround can go, and its reproduction with it."""
    tried = {row.name: set(row.tried) for row in tried_versions()}
    assert [each for each in HEADINGS if each[0] not in ELSEWHERE and not set(each[1]) <= tried[each[0]]] == []


def test_every_file_with_a_workaround_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert len(named) > 10
    files = [*(ROOT / "export").rglob("*.py"), *(ROOT / "keras_pe").rglob("*.py")]
    assert [name for name in named if not any(path.as_posix().endswith(f"/{name}") for path in files)] == []
