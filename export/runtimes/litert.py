"""LiteRT, through the signature that the file carries."""

import importlib.metadata
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import ml_dtypes  # noqa: F401 - without it the interpreter cannot say that a tensor is of bfloat16
import numpy as np
from ai_edge_litert.interpreter import Interpreter

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.litert_file import conditions, constants, quantized_constants
from keras_pe.export.runtimes.runner import in_order
from keras_pe.export.runtimes.runtime import NUMBERS, STEPS, Array, Arrays, tensor_info


class LiteRTRuntime:
    """A LiteRT file in the interpreter."""

    def __init__(self, path: str) -> None:
        interpreter = Interpreter(model_path=path)
        self._path = Path(path)
        self._interpreter = interpreter
        self._run = interpreter.get_signature_runner()
        details = self._run.get_input_details()
        self.inputs = tuple(_spec(name, details[name]) for name in in_order(details))
        self.version = f"ai-edge-litert {importlib.metadata.version('ai-edge-litert')}"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        # The interpreter's arrays are views of memory that the next run overwrites.
        outputs = self._run(**inputs)
        return {name: np.array(outputs[name]) for name in in_order(outputs)}

    def weights(self) -> Arrays:
        quantized = quantized_constants(self._path)
        numbers = {f"{NUMBERS}{name}": each for name, (each, _) in quantized.items()}
        return constants(self._path) | numbers | {f"{STEPS}{name}": each for name, (_, each) in quantized.items()}

    def conditions(self, inputs: Mapping[str, Array]) -> Mapping[str, bool]:
        if not self._conditions:
            return {}
        self._keeping.get_signature_runner()(**inputs)
        return {name: bool(self._keeping.get_tensor(number)) for name, number in self._conditions.items()}

    @cached_property
    def _conditions(self) -> Mapping[str, int]:
        return conditions(self._path)

    @cached_property
    def _keeping(self) -> Interpreter:
        """An interpreter that keeps the tensors between the operators."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it takes more memory, which is why it is another one
            return Interpreter(model_path=str(self._path), experimental_preserve_all_tensors=True)

    def float_dtypes(self) -> tuple[str, ...]:
        names = {np.dtype(detail["dtype"]).name for detail in self._interpreter.get_tensor_details()}
        return tuple(sorted(name for name in names if "float" in name))


def _spec(name: str, detail: Mapping[str, Array]) -> TensorInfo:
    return tensor_info(name, detail["shape_signature"], np.dtype(detail["dtype"]).name)
