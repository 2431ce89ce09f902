"""Runtimes that are at fault themselves. Each child process imports this file by name."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any

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


class Answering:
    """Returns an invalid answer of a runtime, by the name of its kind."""

    inputs = (TensorInfo("x", ("batch", 4), "float32"),)
    version = "faulty 1"

    def __init__(self, path: str, kind: str) -> None:
        self.kind = kind

    def run(self, inputs: Mapping[str, np.ndarray]) -> Any:
        x = inputs["x"]
        return {
            "None": None,
            "a list": [x],
            "an array": x,
            "a text": "y",
            "a tuple": (x, x),
            "a generator": iter([x]),
            "None by name": {"y": None},
            "a text by name": {"y": "four"},
            "texts by name": {"y": np.full(x.shape, "four")},
            "objects by name": {"y": np.full(x.shape, object())},
            "an object by name": {"y": object()},
            "a mapping by name": {"y": {"y": x}},
            "ragged rows": {"y": [[1.0], [1.0, 2.0]]},
            "dates": {"y": np.full(x.shape, np.datetime64("2026-01-01"))},
            "records": {"y": np.zeros(x.shape, [("a", "f4")])},
            "a name that is no text": {0: x},
            "bytes": {"y": x.tobytes()},
        }[self.kind]


class OwnError(BaseException):
    """No Exception, as that of a test framework that skips."""


class Leaving:
    """Ends its process in a way and at a time, as if all was well."""

    inputs = (TensorInfo("x", ("batch", 4), "float32"),)
    version = "faulty 1"

    def __init__(self, path: str, way: str, when: str) -> None:
        self.way, self.when, self.asked = way, when, 0
        self.leave("load")

    def run(self, inputs: Mapping[str, np.ndarray]) -> Any:
        self.asked += 1
        self.leave("first" if self.asked == 1 else "third" if self.asked == 3 else "")
        return {"y": -inputs["x"]}

    def leave(self, now: str) -> None:
        if now != self.when:
            return
        if self.way == "os._exit":
            os._exit(0)
        if self.way == "daemon":
            thread = threading.Thread(target=os._exit, args=[0], daemon=True)
            thread.start()
            thread.join()
        raise {each.__name__: each for each in (SystemExit, KeyboardInterrupt, GeneratorExit, OwnError)}[self.way](0)
