"""Generated pages of docs/ equal the current output of their scripts."""

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from keras_pe.export import Cause
from keras_pe.export.parity.presentation.remedies import REMEDIES
from tests.pages import blocks, words

ROOT = Path(__file__).parent.parent
RECORDS, RUNTIMES = "keras_pe.export.records", "keras_pe.export.runtimes"
# Names for authors of runtimes, which their docstrings alone describe.
HELPERS = {"Array", "Arrays", "InspectedModel", "Process", "RuntimeName", "as_dtype", "tensor_info", "weight_files"}
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_BRITISH = re.compile(
    r"(?:col|behavi|neighb|fav|hon)our|\b_?(?:cent(?:re)|gr(?:ey))"  # so that this line does not match itself
    r"|(?:normal|recogn|optim|serial|quant|summar|general|special|initial)is(?:e|ing|ation)",
    re.IGNORECASE,
)


def script(name: str) -> ModuleType:
    """Returns a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_versions_is_up_to_date() -> None:
    assert (ROOT / "docs" / "versions.md").read_text() == script("versions").page(), "run python docs/versions.py"


@pytest.mark.slow
def test_the_table_of_imports_is_up_to_date() -> None:
    assert (ROOT / "docs" / "architecture.md").read_text() == script("folders").page(), "run python docs/folders.py"


def test_each_file_of_the_largest_parts_has_a_promise_and_tests() -> None:
    page = script("promises").page()  # raises an error otherwise
    assert re.sub(r"[\d,]+", "", page) == re.sub(r"[\d,]+", "", (ROOT / "docs" / "promises.md").read_text())


def test_the_rules_of_devices_are_up_to_date() -> None:
    page = (ROOT / "docs" / "how-to" / "litert.md").read_text()
    assert page == script("device_rules").page(), "run python docs/device_rules.py"


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:export|keras_pe|tests|docs|benchmarks)/[\w./-]+)`", text))
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_the_spelling_is_american() -> None:
    folders = ("keras_pe", "export", "tests", "benchmarks", "docs", "notebooks")
    files = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    texts = [path for path in files if path.suffix in {".py", ".md", ".j2", ".toml", ".ipynb"}]
    assert len(texts) > 400
    # The search knows other spellings too, by the keywords of a page.
    bodies = {path: _FRONT_MATTER.sub("", path.read_text("utf-8")) for path in texts}
    assert not [f"{path}: {match[0]}" for path, text in bodies.items() for match in _BRITISH.finditer(text)]


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(path.read_text() for path in REFERENCE)
    listed = set(re.findall(r"^\.\. auto(?:class|function|module):: ([\w.]+)$", pages, re.MULTILINE))
    whole = {"keras_pe.plots", "keras_pe.tensor2tensor"}  # with every name in them
    assert whole <= listed
    modules = {"keras_pe", "keras_pe.conventions", "keras_pe.export", RECORDS, RUNTIMES}
    public = {f"{module}.{name}" for module in modules for name in importlib.import_module(module).__all__}
    aliases = {f"keras_pe.{name}" for name in ("from_convention", "identify")}  # under keras_pe.conventions
    others = {"keras_pe.__version__", "keras_pe.conventions.CONVENTIONS", *(f"{RUNTIMES}.{name}" for name in HELPERS)}
    assert public - listed - whole - modules == aliases | others
    assert listed - whole <= public


def test_every_public_name_has_an_example_that_runs() -> None:
    """In its docstring, which test_doctests.py runs, or on its page, which test_pages.py runs."""
    sessions = "\n".join(block.code for page in REFERENCE for block in blocks(page.read_text(), "pycon"))
    code = "\n".join(block.code for page in REFERENCE for block in blocks(page.read_text(), "python"))
    for module in ("keras_pe", "keras_pe.export", RECORDS, RUNTIMES):
        face = importlib.import_module(module)
        for name in set(face.__all__) - HELPERS:
            shown = rf"\b{name}\b"
            found = getattr(face, name)
            documented = not isinstance(found, ModuleType) and ">>> " in (getattr(found, "__doc__", None) or "")
            assert documented or re.search(shown, sessions) or re.search(rf"keras_pe\.{name}", code), name


def shown_sections() -> dict[str, str]:
    """Returns what the gallery shows of each cause."""
    page = (ROOT / "docs" / "gallery.md").read_text()
    return {section.partition("\n")[0]: f"\n## {section}" for section in page.split("\n## ")[1:]}


@pytest.mark.slow_rows(6)
@pytest.mark.slow
@pytest.mark.parametrize("cause", shown_sections())
def test_a_fault_is_named_by_its_cause_and_the_gallery_shows_what_is_said_of_it(cause: str) -> None:
    gallery = script("gallery")
    part = gallery.report(Cause(cause))
    causes = [each.text for each in part.statements if each.label == "cause"]
    assert causes[0].startswith(cause)
    assert words(gallery.section(Cause(cause), part)) == words(shown_sections()[cause]), "run python docs/gallery.py"


def test_every_cause_has_a_remedy_and_stands_in_the_gallery() -> None:
    assert set(REMEDIES) == set(Cause)
    assert list(shown_sections()) == list(map(str, Cause))
