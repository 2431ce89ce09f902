"""Takes out the Reshapes around a MatMul that TensorFlow's `tensordot` puts there for a Dense layer.

TensorFlow flattens the leading dimensions, multiplies, and splits them again. ONNX's MatMul takes any rank, so both
Reshapes and what computes their shapes can go, once it is proven that the second undoes the first.
"""

from collections.abc import Sequence
from typing import Any

Entry = int | tuple[str, int]  # a size, or the axis of a tensor that has it


def remove_flattening(model: Any) -> None:
    """Rewrites the graph of an `onnx.ModelProto` in place. Nodes that nothing needs any more are left behind."""
    import onnx

    graph = model.graph
    # Without the data of the weights, which the graph has as inputs: it costs little.
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
        for value in (*inferred.value_info, *inferred.input, *inferred.output)
        if value.type.tensor_type.HasField("shape")
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    sizes = _Sizes(graph, shapes)
    outputs = {value.name for value in graph.output}
    for product in [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]:
        flatten = sizes.producer.get(product.input[0])
        users = [] if product.output[0] in outputs else sizes.users.get(product.output[0], [])
        weight = shapes.get(product.input[1], [])
        if (
            len(product.input) != 2
            or product.attribute  # a Gemm that transposes or scales
            or flatten is None
            or flatten.op_type != "Reshape"
            or len(weight) != 2
            or [user.op_type for user in users] != ["Reshape"]
            or users[0].input[0] != product.output[0]
        ):
            continue
        source, split = flatten.input[0], users[0]
        wanted = [sizes.axis(source, axis) for axis in range(len(shapes.get(source, ())) - 1)]
        # As many elements come out as go in, so these leading sizes leave the flattened one for the last axis alone.
        if wanted and sizes.vector(split.input[1]) == [*wanted, weight[1]]:
            product.op_type = "MatMul"
            product.input[0] = source
            product.output[0] = split.output[0]
            graph.node.remove(split)


class _Sizes:
    """Evaluates the small integer vectors that say how a tensor is reshaped."""

    def __init__(self, graph: Any, shapes: dict[str, list[int | None]]) -> None:
        from onnx import numpy_helper

        self.shapes = shapes
        self.producer = {output: node for node in graph.node for output in node.output}
        self.users: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        integers = [tensor for tensor in graph.initializer if tensor.data_type in (6, 7) and len(tensor.dims) < 2]
        self.constants = {tensor.name: numpy_helper.to_array(tensor).reshape(-1).tolist() for tensor in integers}

    def axis(self, tensor: str, axis: int) -> Entry:
        """Returns the size of an axis, or the earliest tensor that has the same one."""
        while True:
            size = self.shapes[tensor][axis] if tensor in self.shapes else None
            if size is not None:
                return size
            node = self.producer.get(tensor)
            if node is not None and node.op_type == "Transpose":
                axis = list(node.attribute[0].ints)[axis]
            elif node is None or node.op_type not in ("Identity", "Cast", "Relu", "Erf", "Tanh", "Sigmoid", "Softmax"):
                return tensor, axis
            tensor = node.input[0]

    def vector(self, name: str) -> Sequence[Entry] | None:
        """Returns the entries of a vector of sizes, None where they cannot be told."""
        if name in self.constants:
            return list(self.constants[name])
        node = self.producer.get(name)
        if node is None:
            return None
        if node.op_type == "Shape":
            is_whole = not node.attribute and node.input[0] in self.shapes
            return [self.axis(node.input[0], i) for i in range(len(self.shapes[node.input[0]]))] if is_whole else None
        parts = [self.vector(argument) for argument in node.input]
        if any(part is None for part in parts):
            return None
        known = [list(part) for part in parts if part is not None]
        if node.op_type in ("Cast", "Identity", "Unsqueeze", "Squeeze"):
            return known[0]
        if node.op_type == "Concat":
            return [entry for part in known for entry in part]
        if node.op_type == "Gather" and all(isinstance(i, int) for i in known[1]):
            return [known[0][i] for i in known[1] if isinstance(i, int)]
        if node.op_type == "Slice" and len(known) >= 3 and known[4:] in ([], [[1]]):
            (start,), (stop,) = known[1], known[2]
            return known[0][start:stop] if isinstance(start, int) and isinstance(stop, int) else None
        return None
