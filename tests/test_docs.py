"""What a script writes into docs/ is what it would write now."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


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
