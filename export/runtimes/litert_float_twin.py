"""Runs a LiteRT file with any choice of its computed tensors rounded to integers, the others as floats."""

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.artifacts.litert_file import interface_order, pack_model, read_whole
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.quantized_tensors import value_limits
from keras_pe.export.runtimes.float_twin import FloatTwin, NothingRoundedError, RoundedTensor
from keras_pe.export.runtimes.litert_layers import operator_layers
from keras_pe.export.runtimes.runtime import Array, Arrays

_PASSING = frozenset({
    *("BATCH_TO_SPACE_ND", "BROADCAST_TO", "DEPTH_TO_SPACE", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MAX_POOL_2D"),
    *("PACK", "PAD", "RESHAPE", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE"),
    *("STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK"),
})  # fmt: skip
"""Operators that pass integers on from their inputs, if the scales are equal."""

_ONNX_NAMES = {
    "ADD": "Add",
    "CONCATENATION": "Concat",
    "CONV_2D": "Conv",
    "COS": "Cos",
    "DEPTHWISE_CONV_2D": "Conv",
    "DIV": "Div",
    "FULLY_CONNECTED": "Gemm",
    "LOG": "Log",
    "RSQRT": "Sqrt",
    "SIN": "Sin",
    "SOFTMAX": "Softmax",
    "SQRT": "Sqrt",
    "SUB": "Sub",
}
"""ONNX's types of operators that faults of calibration ask for."""

_INTEGERS = ("int8", "uint8", "int16")


@dataclass(frozen=True)
class _Scale:
    """The scale of a tensor of integers.

    Attributes:
        dtype: The type of the integers.
        quantization: The entry in the file.
        scale: The steps.
        zero: The zero points.
    """

    dtype: str
    quantization: Any
    scale: Array
    zero: Array

    def numbers(self, integers: Array) -> Array:
        """Returns the numbers that stored integers stand for."""
        axis = int(self.quantization.quantizedDimension)
        shape = [-1 if place == axis and self.scale.size > 1 else 1 for place in range(integers.ndim)]
        zero = self.zero.reshape(shape) if self.zero.size > 1 else self.zero.reshape([1] * integers.ndim)
        return ((integers - zero) * self.scale.reshape(shape)).astype(np.float32)

    def equals(self, other: "_Scale | None") -> bool:
        """Whether another tensor has the same numbers for its integers."""
        return other is not None and np.array_equal(self.scale, other.scale) and np.array_equal(self.zero, other.zero)


class LiteRTFloatTwin(FloatTwin):
    """A quantized LiteRT file that runs in floats, and rounds the tensors that a caller chooses."""

    def __init__(self, path: Path, layers: Iterable[str] = ()) -> None:
        """Reads the file.

        Args:
            path: The file.
            layers: The paths of the model's layers, if they are known.

        Raises:
            NothingRoundedError: If the file rounds no computed tensor.
            ValueError: If it has inputs or outputs of integers or loops of integers, or an operator has no form in
                floats.
        """
        self._path, content = path, read_whole(path)
        self._model = schema.ModelT.InitFromPackedBuf(content, 0)
        self._graph, *bodies = self._model.subgraphs
        self._originals = list(self._graph.operators)
        if any(_has_integers(body) for body in bodies):
            raise ValueError("has loops or branches that compute with integers.")
        self._operators = [each for each in read_operators(content) if not each.is_in_body]
        if len(self._operators) != len(self._originals):
            raise ValueError("has several signatures.")
        self._layers = operator_layers(self._operators, layers)
        self._editor = Editor(self._model, self._graph)
        ends = {*map(int, self._graph.inputs), *map(int, self._graph.outputs)}
        self._scales = self._take_scales()
        if ends & self._scales.keys():
            raise ValueError("has inputs or outputs of integers.")
        self._same: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._switches: dict[str, tuple[int, int, int]] = {}
        self._sources: dict[str, int] = {}
        inputs, outputs = interface_order(path)
        self._inputs = {name: int(self._graph.inputs[place]) for name, place in inputs.items()}
        self._names |= {number: name for name, number in self._inputs.items()}
        self.tensors = tuple(self._rewrite())
        self._outputs = {name: self._alias(int(self._graph.outputs[place])) for name, place in outputs.items()}
        if not self.tensors:
            raise NothingRoundedError
        self._interpreter = self._open()

    def run(
        self,
        inputs: Mapping[str, Array],
        rounded: Collection[str] = (),
        cut: Mapping[str, tuple[float, float]] | None = None,
        *,
        with_tensors: bool = False,
    ) -> tuple[Arrays, Arrays]:
        given = {self._inputs[name]: np.asarray(array) for name, array in inputs.items() if name in self._inputs}
        for key, (flag, low, high) in self._switches.items():
            ends = (cut or {}).get(key, (-np.inf, np.inf))
            given |= {flag: np.array(key in rounded), low: np.array(ends[0], "f"), high: np.array(ends[1], "f")}
        for number in self._inputs.values():
            self._interpreter.resize_tensor_input(number, given[number].shape)
        self._interpreter.allocate_tensors()
        for number, array in given.items():
            self._interpreter.set_tensor(number, np.asarray(array))
        self._interpreter.invoke()
        outputs = {name: self._read(number) for name, number in self._outputs.items()}
        if not with_tensors:
            return outputs, {}
        numbers = {name: number for number, name in self._names.items()}
        summands = {name: self._read(numbers[name]) for each in self.tensors for name in each.summands}
        return outputs, summands | {key: self._read(number) for key, number in self._sources.items()}

    def _read(self, number: int) -> Array:
        return np.array(self._interpreter.get_tensor(number))

    def _take_scales(self) -> dict[int, _Scale]:
        """Makes floats of all tensors of integers with a scale, and returns their scales by number."""
        found = {}
        for number, tensor in enumerate(self._graph.tensors):
            known, dtype = tensor.quantization, self._editor.dtype(number)
            if known is None or known.scale is None or not len(known.scale):
                continue
            data, values = self._model.buffers[tensor.buffer].data, self._editor.values(number)
            is_stored = data is not None and len(data) > 0
            if (values is None) if is_stored else (dtype not in _INTEGERS):
                continue  # packed integers, which an operator of the file unpacks, or sums in int32
            zero = np.zeros(1) if known.zeroPoint is None or not len(known.zeroPoint) else np.asarray(known.zeroPoint)
            scale = _Scale(dtype, known, np.asarray(known.scale, np.float64), zero.astype(np.float64))
            found[number] = scale
            tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
            if values is not None:
                buffer = schema.BufferT()
                buffer.data = np.frombuffer(scale.numbers(values).tobytes(), np.uint8)
                tensor.buffer = len(self._model.buffers)
                self._model.buffers.append(buffer)
        return found

    def _rewrite(self) -> Iterable[RoundedTensor]:
        """Writes the operators anew, with a switch behind each rounding, and yields the rounded tensors."""
        readers = self._readers()
        for place, operator in enumerate(self._originals):
            kind = self._editor.kind(operator)
            inputs = [self._alias(int(number)) if number >= 0 else -1 for number in operator.inputs]
            outputs = [int(number) for number in operator.outputs]
            for number in outputs:
                self._names[number] = self._unique(f"{self._layers[place]}/{self._own_name(number)}", number)
            if kind == "DEQUANTIZE" and inputs[0] in self._scales:
                self._same[outputs[0]] = inputs[0]
            elif kind == "QUANTIZE":
                yield self._switch(inputs[0], outputs[0], self._producer_of(inputs[0]), readers)
            else:
                passes = kind in _PASSING
                rounded = [
                    number
                    for number in outputs
                    if number in self._scales and not (passes and self._passes_on(number, inputs))
                ]
                raw = {number: self._editor.tensor(self._shape(number), number, "float32") for number in rounded}
                self._editor.add_like(operator, inputs, [raw.get(number, number) for number in outputs])
                for number in rounded:
                    yield self._switch(raw[number], number, place, readers)
        self._graph.operators = self._editor.operators

    def _passes_on(self, number: int, inputs: Iterable[int]) -> bool:
        """Whether a tensor has the scale of all inputs with one."""
        known = [self._scales[each] for each in inputs if each in self._scales]
        return bool(known) and all(self._scales[number].equals(each) for each in known)

    def _switch(self, raw: int, number: int, place: int | None, readers: Mapping[int, Any]) -> RoundedTensor:
        """Appends a choice between rounded floats and limited floats, and returns the tensor that it rounds."""
        editor, known, shape = self._editor, self._scales[number], self._shape(number)
        integers = editor.tensor(shape, number, known.dtype)
        self._graph.tensors[integers].quantization = known.quantization
        rounded, above, limited = (editor.tensor(shape, number, "float32") for _ in range(3))
        flag, low, high = (editor.tensor((), number, dtype) for dtype in ("bool", "float32", "float32"))
        self._graph.inputs = [*self._graph.inputs, flag, low, high]
        editor.add("QUANTIZE", [raw], [integers], "QuantizeOptions")
        editor.add("DEQUANTIZE", [integers], [rounded], "DequantizeOptions")
        editor.add("MAXIMUM", [raw, low], [above], "MaximumMinimumOptions")
        editor.add("MINIMUM", [above, high], [limited], "MaximumMinimumOptions")
        editor.add("SELECT_V2", [flag, rounded, limited], [number], "SelectV2Options")
        operator = None if place is None else self._operators[place]
        key = self._names[number]
        name = self._names.get(raw, key)
        self._switches[key], self._sources[key] = (flag, low, high), raw
        return RoundedTensor(
            key=key,
            name=name,
            layer="" if place is None else self._layers[place],
            source=name,
            operator="" if operator is None else _ONNX_NAMES.get(operator.kind, operator.kind),
            node="" if operator is None else operator.scope,
            given=() if place is None else self._name_inputs(place),
            readers=tuple(dict.fromkeys(self._all_readers(number, readers))),
            dtype=known.dtype,
            scale=known.scale,
            limits=value_limits(known.dtype, known.scale, known.zero),
            axis=int(known.quantization.quantizedDimension),
        )

    def _name_inputs(self, place: int) -> tuple[str, ...]:
        """Returns the names of the tensors that an operator takes. A constant without a path gets the operator's."""
        numbers = [self._alias(int(number)) for number in self._originals[place].inputs if number >= 0]
        for number in numbers:
            if number not in self._names:
                self._names[number] = self._unique(f"{self._layers[place]}/{self._own_name(number)}", number)
        return tuple(self._names[number] for number in numbers)

    def _readers(self) -> dict[int, list[int]]:
        """Returns the places of the operators that take each tensor."""
        found: dict[int, list[int]] = {}
        for place, operator in enumerate(self._originals):
            for number in map(int, operator.inputs):
                found.setdefault(number, []).append(place)
        return found

    def _all_readers(self, number: int, readers: Mapping[int, list[int]]) -> Iterable[tuple[str, int]]:
        """Yields the operators that take a tensor, or its values further on, each with the place among the inputs."""
        for place in readers.get(number, []):
            operator, kind = self._originals[place], self._editor.kind(self._originals[place])
            if kind == "DEQUANTIZE" or (kind in _PASSING and int(operator.outputs[0]) in self._scales):
                yield from self._all_readers(int(operator.outputs[0]), readers)
            elif kind != "QUANTIZE":
                yield _ONNX_NAMES.get(kind, kind), list(map(int, operator.inputs)).index(number)

    def _producer_of(self, number: int) -> int | None:
        """Returns the place of the operator that computes a tensor; None for an input of the file."""
        found = (place for place, each in enumerate(self._originals) if number in map(int, each.outputs))
        return next(found, None)

    def _alias(self, number: int) -> int:
        """Returns the tensor that stands for another one."""
        return self._same.get(number, number)

    def _shape(self, number: int) -> list[int]:
        """Returns the sizes of a tensor, of which 1 may stand for an unknown size."""
        shape = self._graph.tensors[number].shape
        return [] if shape is None else list(map(int, shape))

    def _own_name(self, number: int) -> str:
        return (self._graph.tensors[number].name or b"").decode().partition(";")[0].rpartition("/")[2]

    def _unique(self, name: str, number: int) -> str:
        return f"{name};{number}" if name in self._names.values() else name

    def _open(self) -> Interpreter:
        self._graph.outputs = list(dict.fromkeys(self._outputs.values()))
        self._model.signatureDefs = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # keeping the tensors takes more memory
                return Interpreter(
                    model_content=pack_model(self._model),
                    experimental_preserve_all_tensors=True,
                    experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                )
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"has an operator without a form in floats ({error}).") from error


def _has_integers(graph: Any) -> bool:
    """Whether a graph computes tensors of integers with a scale."""
    known = [
        graph.tensors[int(number)].quantization for operator in graph.operators or () for number in operator.outputs
    ]
    return any(each is not None and each.scale is not None and len(each.scale) for each in known)
