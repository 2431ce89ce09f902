"""Runtimes of the gallery that are wrong themselves. A child process imports this file without Keras."""

import os
import time
from collections.abc import Mapping, Sequence

import numpy as np

from keras_pe.export.runtimes.onnxruntime import OnnxRuntime


class Crashing(OnnxRuntime):
    """Aborts its process."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        os.abort()


class Hanging(OnnxRuntime):
    """Does not answer in time."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        time.sleep(3600)
        return {}


class Listing(OnnxRuntime):
    """Returns no arrays by name."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return [1, 2]


class Misoptimizing(OnnxRuntime):
    """Adds one to everything, unless one of the optimizations is left out."""

    def __init__(self, path: str, level: str = "all", disabled_optimizers: Sequence[str] = ()) -> None:
        super().__init__(path, level, disabled_optimizers=disabled_optimizers)
        self._is_wrong = level != "disabled" and "MatMulAddFusion" not in disabled_optimizers

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array + self._is_wrong for name, array in super().run(inputs).items()}


class Older(OnnxRuntime):
    """A release that adds a tenth to everything."""

    def __init__(self, path: str, level: str = "all") -> None:
        super().__init__(path, level)
        self.version = "onnxruntime 1.0.0"

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array + np.float32(0.1) for name, array in super().run(inputs).items()}
