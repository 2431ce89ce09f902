"""Registers the layers with Keras when Keras is imported, without importing it.

`import keras_pe` must be enough for `keras.saving.load_model` to find the layers. It must not cost the seconds that
Keras needs to start: the command line and the comparison of two ONNX files do without Keras.
"""

import importlib
import itertools
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:  # `importlib.abc` takes half of the time of `import keras_pe`.
    Loader = object


class _KerasFinder:
    """Finds Keras as Python would have without it, with a loader that imports the layers afterwards.

    The finder is never removed, for three reasons. A query such as `importlib.util.find_spec("keras")` does not import.
    A failed import may be tried again. Removing a finder makes another thread, which iterates over the finders, miss
    the next one.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "keras":
            return None
        # Query only the finders after this one: an earlier one that does the same would never end.
        _, *others = itertools.dropwhile(lambda finder: finder is not self, sys.meta_path)
        specs = (finder.find_spec(fullname, path, target) for finder in others if hasattr(finder, "find_spec"))
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(Loader):
    """Loads Keras with the loader that was found, whatever kind it is of, and then imports the layers."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create else None

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None  # the module is made of it
        spec.loader = module.__loader__ = self._loader  # readers of Keras' module see its own loader
        if hasattr(self._loader, "exec_module"):
            self._loader.exec_module(module)
        else:
            self._loader.load_module(spec.name)
        importlib.import_module("keras_pe.layers")


_FINDER = _KerasFinder()


def register_with_keras() -> None:
    """Imports the layers now if Keras is there, or else when it comes. To call it again does no harm."""
    if "keras" in sys.modules:
        importlib.import_module("keras_pe.layers")
    elif _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
