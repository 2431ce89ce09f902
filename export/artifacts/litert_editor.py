"""Edits of a subgraph of a LiteRT file: new tensors, constants and operators, by the numbers of tensors."""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.artifacts.litert_file import element_types, operator_kind

Array = npt.NDArray[Any]


class Editor:
    """A subgraph whose operators are written anew, in order.

    Attributes:
        operators: The new operators so far.
    """

    def __init__(self, model: Any, graph: Any) -> None:
        """Starts with no operators.

        Args:
            model: The file as `schema.ModelT`. The editor appends buffers and operator codes.
            graph: The subgraph as `schema.SubGraphT`. The editor appends tensors.
        """
        self._model, self._graph = model, graph
        self.operators: list[Any] = []
        self._shapes: dict[tuple[int, ...], int] = {}
        self._codes: dict[int, int] = {}

    def kind(self, operator: Any) -> str:
        """Returns the type of an operator, such as "CONV_2D"."""
        return operator_kind(self._model.operatorCodes[operator.opcodeIndex])

    def custom_name(self, operator: Any) -> str:
        """Returns the name of a custom operator; an empty text for an operator of LiteRT."""
        return (self._model.operatorCodes[operator.opcodeIndex].customCode or b"").decode()

    def shape(self, number: int) -> tuple[int, ...]:
        """Returns the shape of a tensor; -1 for an unknown size."""
        tensor = self._graph.tensors[number]
        declared = tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature
        return () if declared is None else tuple(map(int, declared))

    def size(self, number: int) -> int:
        """Returns the number of values of a tensor."""
        return math.prod(self.shape(number))

    def dtype(self, number: int) -> str:
        """Returns the element type of a tensor, such as "float32"."""
        return element_types()[self._graph.tensors[number].type]

    def values(self, number: int) -> Array | None:
        """Returns the values of a constant of numbers or truth values; None if the tensor is computed."""
        data, dtype = self._model.buffers[self._graph.tensors[number].buffer].data, self.dtype(number)
        if data is None or not len(data) or dtype not in _STORED:
            return None
        return np.frombuffer(bytes(data), dtype).reshape(self.shape(number))

    def is_output(self, number: int) -> bool:
        """Returns whether a tensor is an output of the subgraph."""
        return number in {int(each) for each in self._graph.outputs}

    def tensor(self, shape: Sequence[int], like: int, dtype: str | None = None) -> int:
        """Adds a computed tensor. The dtype and the name follow from another tensor."""
        from ai_edge_litert import schema_py_generated as schema

        tensor, other = schema.TensorT(), self._graph.tensors[like]
        tensor.type = other.type if dtype is None else getattr(schema.TensorType, dtype.upper())
        tensor.shape, tensor.buffer, tensor.hasRank = np.array(shape, np.int32), 0, True
        if dtype is None:
            tensor.quantization = copy.copy(other.quantization)
        # The name keeps the path of the layer, and is unique in the subgraph.
        tensor.name = (other.name or b"").partition(b";")[0] + f"/rewritten_{len(self._graph.tensors)}".encode()
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def variable(self, shape: Sequence[int], like: int) -> int:
        """Adds a variable. The dtype and the name follow from another tensor."""
        number = self.tensor(shape, like)
        self._graph.tensors[number].isVariable = True
        return number

    def constant(self, values: Array, like: int) -> int:
        """Adds a constant. The name follows from another tensor."""
        from ai_edge_litert import schema_py_generated as schema

        number = self.tensor(values.shape, like, dtype=str(values.dtype))
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self._graph.tensors[number].buffer = len(self._model.buffers)
        self._model.buffers.append(buffer)
        return number

    def integers(self, values: Iterable[int], like: int) -> int:
        """Returns a constant of int32, such as a shape or axes. Equal values share one constant."""
        key = tuple(map(int, values))
        if key not in self._shapes:
            self._shapes[key] = self.constant(np.array(key, np.int32), like)
        return self._shapes[key]

    def add(
        self, kind: str, inputs: Sequence[int], outputs: Sequence[int], options: str | None = None, **values: Any
    ) -> None:
        """Appends an operator.

        Args:
            kind: The type.
            inputs: Numbers of tensors.
            outputs: Numbers of tensors.
            options: The name of the options in the schema, such as "GatherOptions"; None if the operator has none.
            **values: The fields of the options.
        """
        from ai_edge_litert import schema_py_generated as schema

        operator = schema.OperatorT()
        operator.opcodeIndex = self._code(getattr(schema.BuiltinOperator, kind))
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        if options is not None:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, f"{options}T")()
            vars(operator.builtinOptions).update(values)
        self.operators.append(operator)

    def add_like(self, operator: Any, inputs: Sequence[int], outputs: Sequence[int], **values: Any) -> None:
        """Appends a copy of an operator with other tensors, and other values of some fields of its options.

        The copy has the first version of its type: later versions add dtypes, and broadcasts of more than four axes.
        """
        from ai_edge_litert import schema_py_generated as schema

        changed = copy.copy(operator)
        if all(self.dtype(int(number)) == "float32" for number in outputs):
            changed.opcodeIndex = self._code(getattr(schema.BuiltinOperator, self.kind(operator)))
        changed.inputs, changed.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        if values:
            changed.builtinOptions = copy.copy(operator.builtinOptions)
            vars(changed.builtinOptions).update(values)
        self.operators.append(changed)

    def reshape(self, number: int, shape: Sequence[int], output: int | None = None) -> int:
        """Returns a tensor with the values of another in a shape, and appends the operator if one is needed.

        Args:
            number: The tensor with the values.
            shape: The shape.
            output: The tensor to write; a new one by default.
        """
        shape = tuple(shape)
        if output is None and self.shape(number) == shape:
            return number
        if output is None and self.values(number) is not None:
            stored = self.tensor(shape, number)
            self._graph.tensors[stored].buffer = self._graph.tensors[number].buffer
            return stored
        result = self.tensor(shape, number) if output is None else output
        self.add("RESHAPE", [number, self.integers(shape, number)], [result], "ReshapeOptions", newShape=list(shape))
        return result

    def _code(self, kind: int) -> int:
        from ai_edge_litert import schema_py_generated as schema

        if kind not in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = kind, min(kind, 127), 1
            self._codes[kind] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(code)
        return self._codes[kind]


_STORED = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
