"""Registers the layers with Keras as soon as Keras is imported, and does not import it.

`import keras_pe` must be enough for `keras.saving.load_model` to find the layers, and yet must not cost the seconds
that Keras needs to start: the command line and the comparison of two ONNX files do without Keras.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Finds Keras as Python would have, and has the layers imported once it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("keras")
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            importlib.import_module("keras_pe.layers")

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


def register_with_keras() -> None:
    """Imports the layers now if Keras is there, or else when it comes."""
    if "keras" in sys.modules:
        importlib.import_module("keras_pe.layers")
    else:
        sys.meta_path.insert(0, _AfterKeras())
