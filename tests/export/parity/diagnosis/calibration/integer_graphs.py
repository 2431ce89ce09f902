"""Small ONNX and LiteRT files whose tensors are rounded to integers with scales of a test's choice."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.artifacts.litert_file import pack_model
from keras_pe.export.results import Array

_LITERT: Mapping[str, tuple[str, str | None, Mapping[str, Any]]] = {
    "Add": ("ADD", "AddOptions", {}),
    "Concat": ("CONCATENATION", "ConcatenationOptions", {}),
    "Conv": ("CONV_2D", "Conv2DOptions", {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}),
    "DequantizeLinear": ("DEQUANTIZE", "DequantizeOptions", {}),
    "Gather": ("GATHER", "GatherOptions", {}),
    "MatMul": ("FULLY_CONNECTED", "FullyConnectedOptions", {"keepNumDims": True}),
    "Mul": ("MUL", "MulOptions", {}),
    "QuantizeLinear": ("QUANTIZE", "QuantizeOptions", {}),
    "Sin": ("SIN", None, {}),
    "Softmax": ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}),
    "Sqrt": ("SQRT", None, {}),
}
"""LiteRT's operators, the names of their options, and the options."""


COLUMNS = np.tile(np.eye(4, dtype=np.int8), (2, 1))
"""A matrix of integers, which adds the channels 0 to 3 to the channels 4 to 7."""


class IntegerGraph:
    """A graph of one input `x` that grows node by node; each node belongs to the layer in its name."""

    def __init__(self, *shape: int | str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.sizes = shape
        self.constants: dict[str, Array] = {}
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])

    def add(self, operator: str, layer: str, *given: str | Array, **attributes: Any) -> str:
        """Adds a node whose constants are arrays, and returns the name of its result."""
        names = []
        for place, each in enumerate(given):
            if not isinstance(each, str):
                self.constants[f"{layer}/constant_{place}"] = each
                each = f"{layer}/constant_{place}"
            names.append(each)
        name = f"{layer}/{operator}"
        self.nodes.append(helper.make_node(operator, names, [name], name, **attributes))
        return name

    def round_tensor(self, name: str, low: float, high: float, dtype: str = "int8") -> str:
        """Adds the rounding of a tensor to a range, and the return to floats."""
        kind, end = np.dtype(dtype), np.iinfo(dtype)
        scale = np.float32((high - low) / 255)
        zero = np.array(np.rint(end.min - low / scale) if scale > 0 else 0).astype(kind)
        self.constants |= {f"{name}_scale": np.array(scale), f"{name}_zero_point": zero}
        pair = [f"{name}_scale", f"{name}_zero_point"]
        integers, floats = f"{name}_QuantizeLinear_Output", f"{name}_DequantizeLinear_Output"
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *pair], [integers], f"{name}_QuantizeLinear"))
        self.nodes.append(helper.make_node("DequantizeLinear", [integers, *pair], [floats], f"{name}_DequantizeLinear"))
        return floats

    def round_each_call(self, name: str) -> str:
        """Adds the rounding of a tensor of 8 channels to the range of each call, and the product with `COLUMNS`."""
        parts = [f"{name}/{each}" for each in ("integers", "scale", "zero")]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [name], parts, f"{name}_dynamic"))
        self.constants[f"{name}/columns"] = COLUMNS
        given = [parts[0], f"{name}/columns", parts[2]]
        self.nodes.append(helper.make_node("MatMulInteger", given, [f"{name}/product"], f"{name}_product"))
        self.nodes.append(helper.make_node("Cast", [f"{name}/product"], [f"{name}/cast"], to=TensorProto.FLOAT))
        self.nodes.append(helper.make_node("Mul", [f"{name}/cast", parts[1]], [f"{name}/floats"]))
        return f"{name}/floats"

    def save_litert(self, path: Path, result: str) -> Path:
        """Writes the graph as a LiteRT file. A product with a matrix is a FULLY_CONNECTED."""
        from ai_edge_litert import schema_py_generated as schema

        model, graph = schema.ModelT(), schema.SubGraphT()
        model.version, model.buffers, model.operatorCodes, model.subgraphs = 3, [schema.BufferT()], [], [graph]
        graph.tensors = []
        editor = Editor(model, graph)
        numbers: dict[str, int] = {}

        def tensor(
            name: str, dtype: str = "float32", values: Array | None = None, scales: tuple[str, str] | None = None
        ) -> int:
            made = schema.TensorT()
            made.name, made.type = name.encode(), getattr(schema.TensorType, dtype.upper())
            made.shape = [1] if values is None else list(values.shape)
            made.buffer = 0 if values is None else len(model.buffers)
            if values is None:
                made.shapeSignature = [-1, *(-1 if isinstance(size, str) else size for size in self.sizes)]
                made.shape = [abs(size) for size in made.shapeSignature]
            else:
                buffer = schema.BufferT()
                buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
                model.buffers.append(buffer)
            if scales:
                scale, zero = (np.atleast_1d(self.constants[each]) for each in scales)
                made.quantization = schema.QuantizationParametersT()
                made.quantization.scale, made.quantization.zeroPoint = scale, zero.astype(np.int64)
                made.quantization.quantizedDimension = 0
            graph.tensors.append(made)
            numbers[name] = len(graph.tensors) - 1
            return numbers[name]

        tensor("x")
        for node in self.nodes:
            kind, options, values = _LITERT[node.op_type]
            dtype = "float32"
            scales = None
            if node.op_type == "QuantizeLinear":
                dtype, scales = str(self.constants[node.input[2]].dtype), (node.input[1], node.input[2])
            given = list(node.input[:1] if node.op_type in ("QuantizeLinear", "DequantizeLinear") else node.input)
            for name in given:
                if name not in numbers:
                    stored = self.constants[name].T if node.op_type == "MatMul" else self.constants[name]
                    pair = (node.input[1], node.input[2]) if node.op_type == "DequantizeLinear" else None
                    tensor(name, str(stored.dtype), stored, pair)
            inputs = [numbers[name] for name in given] + [-1] * (kind == "FULLY_CONNECTED")
            attributes = {each.name: each.i for each in node.attribute} if kind in ("CONCATENATION", "GATHER") else {}
            editor.add(kind, inputs, [tensor(node.output[0], dtype, None, scales)], options, **values, **attributes)
        graph.inputs, graph.outputs, graph.operators = [numbers["x"]], [numbers[result]], editor.operators
        path.write_bytes(pack_model(model))
        return path

    def save(self, path: Path, result: str) -> Path:
        self.nodes.append(helper.make_node("Identity", [result], ["y"], "y"))
        output = onnx.ValueInfoProto(name="y")
        output.type.tensor_type.elem_type = TensorProto.FLOAT
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "graph", [self.input], [output], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path
