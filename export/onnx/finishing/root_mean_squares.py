"""Divides by a root mean square in the spelling that ONNX Runtime makes one operator of: with a power and a division.

Libraries normalize in operations of their own, `x * rsqrt(mean(x * x) + epsilon) * scale`. Keras' own normalization is
written so where it is traced.
"""

from collections import Counter
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes
from keras_pe.export.onnx.finishing.constants import add_constant
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_BACKWARDS = ("Reciprocal", "Sqrt", "Add", "ReduceMean", "Mul")  # to the squares, each read by the one before alone


def spell_root_mean_squares(graph: Any, sizes: KnownSizes) -> None:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind."""
    from onnx import numpy_helper

    uses = Counter(name for node in all_nodes(graph) for name in node.input)
    uses.update(value.name for value in graph.output)
    producers = {output: node for node in graph.node for output in node.output}
    readers = {name: node for node in graph.node for name in node.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def steps_before(tensor: str) -> list[Any]:
        """Returns the operators that compute the inverse, nothing where they are others."""
        steps = []
        for operator in _BACKWARDS:
            node = producers.get(tensor)
            if node is None or node.op_type != operator or uses[tensor] != 1:
                return []
            steps.append(node)
            tensor = next((name for name in node.input if name not in constants), "")
        return steps

    def is_weighted(tensor: str) -> bool:
        """Whether nothing but a product with a vector reads a tensor."""
        reader = readers.get(tensor)
        if reader is None or reader.op_type != "Mul" or uses[tensor] != 1:
            return False
        return any(len(sizes.shape(name) or ()) == 1 for name in reader.input if name != tensor)

    for scaling in [node for node in graph.node if node.op_type == "Mul" and is_weighted(node.output[0])]:
        for x, inverse in (scaling.input, scaling.input[::-1]):
            steps, shape = steps_before(inverse), sizes.shape(x)
            if not steps or list(steps[-1].input) != [x, x] or shape is None:
                continue
            _, root, added, mean, squares = steps
            epsilon = next((constants[name] for name in added.input if name in constants), None)
            if epsilon is None or sizes.shape(mean.output[0]) != (*shape[:-1], 1):
                continue
            two = np.array(2, numpy_helper.to_array(epsilon).dtype)
            squares.op_type, squares.input[1] = "Pow", add_constant(graph, f"{squares.output[0]}/two", two)
            scaling.op_type, scaling.input[:] = "Div", [x, root.output[0]]
            break
