"""The public names: `__all__`, `dir`, a star import, lazy imports and the type stub agree on them."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("keras_pe", "keras_pe.export", "keras_pe.export.records", "keras_pe.export.runtimes")
MODULES = ("keras_pe.conventions", "keras_pe.plots", "keras_pe.tensor2tensor")

every_package = pytest.mark.parametrize("name", PACKAGES)
everything_public = pytest.mark.parametrize("name", PACKAGES + MODULES)


def public_names(module: ModuleType) -> list[str]:
    names = module.__all__
    assert names == sorted(names)
    return list(names)


def stub_sources(module: ModuleType) -> dict[str, str]:
    """Returns the source module of each name in the type stub of a module, which a type checker reads."""
    assert module.__file__
    body = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text()).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    assert len(body) == len(imports) + 1  # its docstring
    aliases = [(str(node.module), alias) for node in imports for alias in node.names]
    assert [alias.name for _, alias in aliases if alias.asname != alias.name] == []  # a type checker hides these
    return {alias.name: source for source, alias in aliases}


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
def test_the_stub_names_the_module_that_defines_each_public_name(name: str) -> None:
    module = importlib.import_module(name)
    for each, source in stub_sources(module).items():
        value = getattr(module, each)
        if isinstance(value, ModuleType):
            assert f"{source}.{each}" == value.__name__
        elif isinstance(value, type | FunctionType):  # the version and aliases of types name no module
            assert source == value.__module__


@every_package
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = importlib.import_module(name).no_such_name


@every_package
def test_a_package_and_the_list_of_its_names_cost_no_keras(name: str) -> None:
    code = f"import sys, {name}; dir({name}); print(sorted({{'keras', 'tensorflow', 'onnx'}} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "[]"
