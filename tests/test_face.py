"""The public names: `__all__`, `dir`, a star import, lazy imports and the type stub agree on them."""

import ast
import importlib
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

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
def test_every_public_name_is_documented_and_a_star_imports_these_alone(name: str) -> None:
    public = public_names(importlib.import_module(name))
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    del names["__builtins__"]
    assert sorted(names) == public
    assert [each for each, value in names.items() if value is None or not value.__doc__] == []


@every_package
def test_dir_and_the_stub_agree_with_the_public_names(name: str) -> None:
    module = importlib.import_module(name)
    assert {each for each in dir(module) if each in module.__all__ or not each.startswith("__")} == set(module.__all__)
    assert {"__doc__", "__name__", "__all__"} <= set(dir(module))
    for each, source in stub_sources(module).items():
        value = getattr(module, each)
        if isinstance(value, ModuleType):
            assert f"{source}.{each}" == value.__name__
        elif isinstance(value, type | FunctionType):  # the version and aliases of types name no module
            assert source == value.__module__
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name
