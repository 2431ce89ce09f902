"""Small ONNX files whose tensors are rounded to integers with scales of a test's choice."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.results import Array


class IntegerGraph:
    """A graph of one input `x` that grows node by node; each node belongs to the layer in its name."""

    def __init__(self, *shape: int | str) -> None:
        self.nodes: list[onnx.NodeProto] = []
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
        """Adds the rounding of a tensor to the range of each call, and the product with 1."""
        parts = [f"{name}/{each}" for each in ("integers", "scale", "zero")]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [name], parts, f"{name}_dynamic"))
        self.constants[f"{name}/one"] = np.eye(8, dtype=np.int8)
        given = [parts[0], f"{name}/one", parts[2]]
        self.nodes.append(helper.make_node("MatMulInteger", given, [f"{name}/product"], f"{name}_product"))
        self.nodes.append(helper.make_node("Cast", [f"{name}/product"], [f"{name}/cast"], to=TensorProto.FLOAT))
        self.nodes.append(helper.make_node("Mul", [f"{name}/cast", parts[1]], [f"{name}/floats"]))
        return f"{name}/floats"

    def save(self, path: Path, result: str) -> Path:
        self.nodes.append(helper.make_node("Identity", [result], ["y"], "y"))
        output = onnx.ValueInfoProto(name="y")
        output.type.tensor_type.elem_type = TensorProto.FLOAT
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "graph", [self.input], [output], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
        return path
