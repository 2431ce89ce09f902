"""Reads the inner tensors of a LiteRT file, and runs the file with other values in their place."""

import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from keras_pe.export.artifacts.litert_file import pack_model, read_whole
from keras_pe.export.runtimes.litert_inner_tensors import computed_tensors, make_input
from keras_pe.export.runtimes.runtime import Array, Arrays

_HELD = 4  # interpreters, each for some tensors that are replaced


class InspectedLiteRT:
    """A LiteRT file whose tensors can be read and replaced: such a tensor is an input, its operator writes another one.

    The interpreter runs without XNNPACK, which keeps no tensors. The graphs within others are not entered.

    Args:
        path: The file.
        inputs: The number of the tensor of each input, by name.
        outputs: The same of each output.
    """

    def __init__(self, path: Path, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        self._content, self._inputs, self._outputs = read_whole(path), inputs, outputs
        self._computed = computed_tensors(self._model().subgraphs[0])
        self._interpreter = lru_cache(maxsize=_HELD)(self._make_interpreter)

    def __call__(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        """Returns every tensor that is computed, in the order of computation, then the outputs by name."""
        numbers = {self._computed[name]: array for name, array in replaced.items() if name in self._computed}
        given = {self._inputs[name]: array for name, array in inputs.items()} | numbers
        interpreter = self._interpreter(tuple(sorted(numbers)))
        for number, array in given.items():
            interpreter.resize_tensor_input(number, array.shape)
        interpreter.allocate_tensors()
        for number, array in given.items():
            interpreter.set_tensor(number, array)
        interpreter.invoke()
        read = {name: _read(interpreter, number) for name, number in self._computed.items()}
        read |= {name: _read(interpreter, number) for name, number in self._outputs.items()}
        return {name: array for name, array in read.items() if array is not None}

    def _model(self) -> Any:
        return schema.ModelT.InitFromObj(schema.Model.GetRootAs(self._content, 0))

    def _make_interpreter(self, replaced: tuple[int, ...]) -> Interpreter:
        """Returns an interpreter that takes some of the tensors as inputs."""
        content = self._content
        if replaced:
            model = self._model()
            graph = model.subgraphs[0]
            for number in replaced:
                make_input(graph, number)
            content = pack_model(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # keeping the tensors takes more memory
            return Interpreter(
                model_content=content,
                experimental_preserve_all_tensors=True,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )


def _read(interpreter: Interpreter, number: int) -> Array | None:
    """Returns the values of a tensor; None if the interpreter has none, as for a state or a text."""
    try:
        return np.array(interpreter.get_tensor(number))
    except ValueError:
        return None
