"""LiteRT with a faulty delegate, for the gallery and tests. A child process imports this file without Keras."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.artifacts.litert_file import pack_model
from keras_pe.export.runtimes.litert import LiteRTRuntime
from keras_pe.export.runtimes.litert_inner_tensors import round_constants
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec


class MistakenDelegate(LiteRTRuntime):
    """Multiplies the outputs of some operators, or computes them in a shorter float."""

    def __init__(self, path: str, kinds: Sequence[str] = (), factor: float = 1.0, dtype: str = "") -> None:
        """Opens a file.

        Args:
            path: The file.
            kinds: The types of the operators; all operators by default.
            factor: The factor.
            dtype: The shorter float; empty for float32.
        """
        content = Path(path).read_bytes()
        if dtype:
            content = round_constants(content, dtype)
        self._folder = TemporaryDirectory()  # the file is read again for its weights and inner tensors
        edited = Path(self._folder.name) / "model.tflite"
        edited.write_bytes(_with_fault(content, kinds, factor, dtype))
        super().__init__(str(edited), xnnpack=False)


def mistaken_delegate(**options: Any) -> RuntimeSpec:
    """Returns LiteRT with a delegate of these options."""
    (spec,) = find_runtimes("litert")
    factory = f"{__name__}:{MistakenDelegate.__name__}"
    return replace(spec, name="litert[delegate]", factory=factory, options=options)


def _with_fault(content: bytes, kinds: Sequence[str], factor: float, dtype: str) -> bytes:
    """Returns a file that computes the outputs of operators as a delegate with a fault does."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    editor = Editor(model, graph)
    if dtype:
        for number in [int(number) for number in graph.inputs if editor.dtype(int(number)) == "float32"]:
            rounded = _copy(graph, number)
            for operator in graph.operators:
                operator.inputs = [rounded if int(each) == number else int(each) for each in operator.inputs]
            _round(editor, graph, number, rounded, dtype)
    for operator in graph.operators:
        editor.operators.append(operator)
        outputs = [int(number) for number in operator.outputs]
        if (kinds and editor.kind(operator) not in kinds) or any(editor.dtype(each) != "float32" for each in outputs):
            continue
        results = [_copy(graph, number) for number in outputs]
        operator.outputs = results
        for result, number in zip(results, outputs, strict=True):
            if dtype:
                _round(editor, graph, result, number, dtype)
            else:
                scale = editor.constant(np.array(factor, np.float32), number)
                editor.add("MUL", [result, scale], [number], "MulOptions")
    graph.operators = editor.operators
    return pack_model(model)


def _round(editor: Editor, graph: Any, number: int, rounded: int, dtype: str) -> None:
    """Appends operators that round a tensor to a shorter float."""
    short = _copy(graph, number)
    graph.tensors[short].type = getattr(schema.TensorType, dtype.upper())
    editor.add("CAST", [number], [short], "CastOptions")
    editor.add("CAST", [short], [rounded], "CastOptions")


def _copy(graph: Any, number: int) -> int:
    """Appends a tensor like another, with another name."""
    tensor = copy.copy(graph.tensors[number])
    tensor.name = (tensor.name or b"") + f"/{len(graph.tensors)}".encode()
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1
