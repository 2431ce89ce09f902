"""What a script writes into docs/ is what it would write now."""

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference").glob("*.md")
_BRITISH = re.compile(
    r"(?:col|behavi|neighb|fav|hon)our|\b_?(?:cent(?:re)|gr(?:ey))"  # which this line is not itself
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


def test_the_table_of_the_rooms_is_up_to_date() -> None:
    assert (ROOT / "docs" / "architecture.md").read_text() == script("rooms").page(), "run python docs/rooms.py"


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:export|keras_pe|tests|docs|benchmarks)/[\w./-]+)`", text))
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_spelling_is_american() -> None:
    folders = ("keras_pe", "export", "tests", "benchmarks", "docs", "notebooks")
    files = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    texts = [path for path in files if path.suffix in {".py", ".md", ".j2", ".toml", ".ipynb"}]
    assert len(texts) > 400
    found = [f"{path}: {match[0]}" for path in texts for match in _BRITISH.finditer(path.read_text("utf-8"))]
    assert not found


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(path.read_text() for path in REFERENCE)
    listed = set(re.findall(r"^\.\. auto(?:class|function|module):: ([\w.]+)$", pages, re.MULTILINE))
    whole = {"keras_pe.plots", "keras_pe.tensor2tensor"}  # with every name in them
    assert whole <= listed
    modules = {"keras_pe", "keras_pe.conventions", "keras_pe.export"}
    public = {f"{module}.{name}" for module in modules for name in importlib.import_module(module).__all__}
    aliases = {f"keras_pe.{name}" for name in ("from_convention", "identify")}  # under keras_pe.conventions
    others = {"keras_pe.__version__", "keras_pe.conventions.CONVENTIONS"}
    assert public - listed - whole - modules == aliases | others
    assert listed - whole <= public


@pytest.mark.slow
def test_the_failures_that_are_shown_are_what_the_terminal_shows_of_them() -> None:
    """The words are compared: what Keras itself rounds, and with it every small figure, differs between processors."""

    def words(text: str) -> list[str]:
        return re.sub(r"\d[\d.,]*(e[+-]\d+)?", "0", text).split()

    shown = (ROOT / "docs" / "failures.md").read_text()
    assert words(shown) == words(script("failures").page()), "run python docs/failures.py"
