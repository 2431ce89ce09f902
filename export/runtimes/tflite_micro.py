"""Runs a LiteRT file in TFLite Micro, the interpreter of microcontrollers, on this machine."""

import importlib.metadata
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tflite_micro import runtime

from keras_pe.export.artifacts.litert_file import interface_order, read_interface, read_whole
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.runtimes.runtime import Array, Arrays, tensor_info

_LEAST_ARENA = 1 << 20  # bytes
_ROOM = 2  # times the bytes of all computed tensors


class TFLiteMicroRuntime:
    """A LiteRT file in TFLite Micro. It takes the sizes of the file alone."""

    def __init__(self, path: str) -> None:
        """Loads the file.

        Raises:
            RuntimeError: If TFLite Micro lacks an operator.
        """
        self._interpreter = runtime.Interpreter.from_file(path, arena_size=_arena_size(Path(path)))
        taken, returned = read_interface(Path(path))
        self.inputs = tuple(tensor_info(spec.name, spec.shape, spec.dtype) for spec in taken)
        self._shapes = {spec.name: spec.shape for spec in taken}
        self._outputs = [spec.name for spec in returned]
        self._places = interface_order(Path(path))
        self.version = f"tflite-micro {importlib.metadata.version('tflite-micro')}"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        places, results = self._places
        for name, array in inputs.items():
            self._interpreter.set_input(array, places[name])
        self._interpreter.invoke()
        return {name: np.array(self._interpreter.get_output(results[name])) for name in self._outputs}


def _arena_size(path: Path) -> int:
    """Returns the bytes to reserve for tensors and states. TFLite Micro cannot enlarge them."""
    tensors = {tensor.name: tensor for each in read_operators(read_whole(path)) for tensor in each.outputs}
    return _LEAST_ARENA + _ROOM * sum(8 * math.prod(map(abs, tensor.shape)) for tensor in tensors.values())
