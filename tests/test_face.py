"""What is public: `__all__`, `dir`, a star import, what is loaded when asked for and type checkers agree on it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("keras_pe", "keras_pe.export")
MODULES = ("keras_pe.conventions", "keras_pe.plots", "keras_pe.tensor2tensor")

every_package = pytest.mark.parametrize("name", PACKAGES)
everything_public = pytest.mark.parametrize("name", PACKAGES + MODULES)


def public_names(module: ModuleType) -> list[str]:
    names = module.__all__
    assert names == sorted(names)
    return list(names)


def type_checkers_names(module: ModuleType) -> set[str]:
    """Returns the names that are imported at a module's top, under TYPE_CHECKING too: what a type checker sees."""
    assert module.__file__
    body = ast.parse(Path(module.__file__).read_text()).body
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            body = body + node.body
    return {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}


@everything_public
def test_every_public_name_is_there_and_documented(name: str) -> None:
    module = importlib.import_module(name)
    for each in public_names(module):
        value = getattr(module, each)
        assert value is not None
        assert value.__doc__, each


@everything_public
def test_a_star_imports_what_is_public_and_nothing_else(name: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    del names["__builtins__"]
    assert sorted(names) == public_names(importlib.import_module(name))


@every_package
def test_dir_shows_what_is_public_and_pythons_own_names(name: str) -> None:
    module = importlib.import_module(name)
    shown = [each for each in dir(module) if not (each.startswith("__") and each not in module.__all__)]
    assert shown == public_names(module)
    assert {"__doc__", "__name__", "__all__"} <= set(dir(module))


@every_package
def test_type_checkers_see_every_public_name(name: str) -> None:
    module = importlib.import_module(name)
    assert set(public_names(module)) <= type_checkers_names(module)


@every_package
def test_what_is_loaded_when_asked_for_is_what_type_checkers_are_told(name: str) -> None:
    module = importlib.import_module(name)
    assert set(module._LAZY) <= set(public_names(module))
    for each, source in module._LAZY.items():
        value = getattr(module, each)
        # A class or function says where it is defined, which is where the table and the import for type checkers look.
        assert source == (value.__name__ if isinstance(value, ModuleType) else value.__module__)


@every_package
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = importlib.import_module(name).no_such_name


@every_package
def test_a_package_and_the_list_of_its_names_cost_no_keras(name: str) -> None:
    code = f"import sys, {name}; dir({name}); print(sorted({{'keras', 'tensorflow', 'onnx'}} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "[]"
