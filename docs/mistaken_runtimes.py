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


class Remembering(OnnxRuntime):
    """Passes the state of the last call to each call, as a server with one session for all users."""

    def __init__(self, path: str, level: str = "all") -> None:
        super().__init__(path, level)
        self._last: dict[str, np.ndarray] = {}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        fitting = {name: array for name, array in self._last.items() if array.shape == inputs[name].shape}
        is_first = not any(inputs[name].any() for name in self._last)
        outputs = super().run({**inputs, **(fitting if is_first else {})})
        self._last = {name.removesuffix("_out"): array for name, array in outputs.items() if name.endswith("_out")}
        return outputs
