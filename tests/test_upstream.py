"""Each fault of others that is worked around is still there: what a release has mended needs no workaround any more."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.export.runtimes.external.present import need

PAGE = (Path(__file__).parent.parent / "docs" / "upstream.md").read_text()


def reproductions() -> tuple[list[str], list[Any]]:
    """Returns the page's definitions, and each reproduction with the package that it is of and the words before it."""
    definitions, found, package = [], [], ""
    texts_and_codes = re.split(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    for text, code in zip(texts_and_codes[::2], texts_and_codes[1::2], strict=False):
        package = (re.findall(r"^## (.+)$", text, re.MULTILINE) or [package])[-1]
        words = text.strip().rpartition("\n\n")[2].replace("\n", " ")
        if "\ndef " in code:
            definitions.append(code)
        else:
            found.append(pytest.param(package, code, id=f"{package.split()[0]}: {words[:60]}"))
    return definitions, found


DEFINITIONS, REPRODUCTIONS = reproductions()


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for code in DEFINITIONS:
        exec(code, names)
    return names


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of others, about others
@pytest.mark.parametrize(("package", "code"), REPRODUCTIONS)
def test_a_fault_is_still_there(
    package: str, code: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package.startswith("onnxruntime-web"):
        need("onnxruntime_web[webgpu]")
    if package.startswith("jax2onnx"):
        pytest.importorskip("jax2onnx")
    monkeypatch.chdir(tmp_path)
    exec(code, dict(names))


def test_every_reproduction_says_what_it_is_of_and_can_fail() -> None:
    assert len(REPRODUCTIONS) >= 26
    assert len(DEFINITIONS) == 2
    assert all("assert " in case.values[1] for case in REPRODUCTIONS)
    assert {case.values[0].split()[0] for case in REPRODUCTIONS} == {
        "tf2onnx",
        "Keras",
        "ONNX",
        "onnxruntime-web",
        "jax2onnx",
        "keras-hub",
    }
