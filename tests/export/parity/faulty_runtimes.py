"""Runtimes that are at fault themselves. Each child process imports this file by name."""

import os
import signal
import time
from collections.abc import Mapping

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo


class Crashing:
    """Aborts its process when it runs."""

    inputs = (TensorInfo("tokens", ("batch", "length"), "int32"),)
    version = "faulty 1"

    def __init__(self, path: str) -> None:
        self.path = path

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        os.kill(os.getpid(), signal.SIGABRT)
        return {}


class Hanging(Crashing):
    """Does not answer."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        time.sleep(3600)
        return {}


class Echoing(Crashing):
    """Returns its input."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"scores": inputs["tokens"], "state": inputs["tokens"]}


class Silent(Crashing):
    """Returns nothing."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {}


class Forgetful:
    """Multiplies by one, and from the third question on by two."""

    inputs = (TensorInfo("x", ("batch", "length"), "float32"),)
    version = "faulty 1"

    def __init__(self, path: str) -> None:
        self.asked = 0

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.asked += 1
        return {"y": inputs["x"] * np.float32(1 if self.asked < 3 else 2)}
