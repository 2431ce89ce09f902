"""Runtimes that compute `y = 2 x` in NumPy and are at fault on some rows. Each child process imports this file."""

import os
import signal
import time
from collections.abc import Mapping

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.runtimes.runtime import RuntimeSpec

DEADLY, UNWANTED = 666.0, 13.0


class Doubling:
    """Is right."""

    inputs: tuple[TensorInfo, ...] = (TensorInfo("x", ("batch", 2), "float32"),)
    version = "faulty 1"

    def __init__(self, path: str) -> None:
        self.path = path

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": inputs["x"] * 2}


class Dying(Doubling):
    """Kills its process where a row begins with `DEADLY`, and refuses one that begins with `UNWANTED`."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if (inputs["x"][:, 0] == DEADLY).any():
            os.kill(os.getpid(), signal.SIGKILL)
        if (inputs["x"][:, 0] == UNWANTED).any():
            raise ValueError("unwanted")
        return super().run(inputs)


class Static(Doubling):
    """Takes four rows at once, no more and no fewer."""

    inputs = (TensorInfo("x", (4, 2), "float32"),)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert inputs["x"].shape == (4, 2)
        return super().run(inputs)


class Slow(Doubling):
    """Takes its time."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        time.sleep(4.0)
        return super().run(inputs)


def spec(name: str) -> RuntimeSpec:
    return RuntimeSpec(name.lower(), "onnx", f"{__name__}:{name}", "numpy", "")
