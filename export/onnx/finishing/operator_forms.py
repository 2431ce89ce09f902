"""Writes operators in the form that runtimes know: one for several, or in their own order.

A sum behind a product is one layer everywhere, a division by a root mean square one operator of ONNX Runtime's, an
average over an image one of ONNX's, and an index may be negative in both. Nodes that nothing needs any more are left
behind.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.onnx.finishing.graph_edits import add_constant, count_uses, producers_of
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def add_biases_before_splits(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Adds the bias of a projection, in an `onnx.GraphProto` in place, before its result is split into heads.

    Keras splits first, so that the bias has the heads' shape. It is stored flat, see `store_as_read`.

    Args:
        graph: The graph, whose weights are no initializers yet.
        shapes: The shape of each weight, by its name.
    """
    from onnx import helper, numpy_helper

    vectors = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 1}
    producers, uses = producers_of(graph), count_uses(graph)

    def stored_shape(tensor: str) -> list[int]:
        """Returns the shape of a weight, or what it is reshaped to; nothing for what is computed."""
        made = producers.get(tensor)
        if made is not None and made.op_type == "Reshape" and made.input[1] in vectors:
            size = math.prod(stored_shape(made.input[0]))
            sizes = list(numpy_helper.to_array(vectors[made.input[1]]).tolist())
            return [size // -math.prod(sizes) if each == -1 else each for each in sizes] if 0 not in sizes else sizes
        return list(shapes.get(tensor, ()))

    for addition in [node for node in graph.node if node.op_type == "Add"]:
        bias = next((name for name in addition.input if len(shapes.get(name, ())) > 1), None)
        split = next((producers[name] for name in addition.input if name in producers), None)
        if bias is None or split is None or split.op_type != "Reshape" or split.input[1] not in vectors:
            continue
        product, block = producers.get(split.input[0]), list(shapes[bias])
        if product is None or product.op_type != "MatMul":
            continue
        target = numpy_helper.to_array(vectors[split.input[1]]).tolist()
        width = math.prod(block)
        # Each row of the product is then a block of what is split, and only this sum reads either of them.
        is_row = stored_shape(product.input[1])[-1:] == [width] and target[-len(block) :] == block and width > 0
        if not is_row or max(uses[product.output[0]], uses[split.output[0]], uses[bias]) > 1:
            continue
        shape, (result,) = split.input[1], addition.output
        flat, summed = f"{bias}/flat", f"{result}/flat"
        size = add_constant(graph, f"{bias}/size", [width])
        graph.node.insert(0, helper.make_node("Reshape", [bias, size], [flat]))
        _become(split, "Add", [product.output[0], flat], summed)
        _become(addition, "Reshape", [summed, shape], result)


def _become(node: Any, operator: str, inputs: list[str], output: str) -> None:
    """Makes of a node another one in its place."""
    del node.attribute[:]
    node.op_type, node.input[:], node.output[:] = operator, inputs, [output]


_ROOT_BACKWARDS = ("Reciprocal", "Sqrt", "Add", "ReduceMean", "Mul")  # to the squares, each read once


def spell_root_mean_squares(graph: Any, sizes: KnownSizes) -> None:
    """Divides by a root mean square, in an `onnx.GraphProto` in place, with a power and a division.

    Libraries normalize in operations of their own, `x * rsqrt(mean(x * x) + epsilon) * scale`. Keras' own normalization
    is written so where it is traced.
    """
    from onnx import numpy_helper

    producers, uses = producers_of(graph), count_uses(graph)
    readers = {name: node for node in graph.node for name in node.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def steps_before(tensor: str) -> list[Any]:
        """Returns the operators that compute the inverse, nothing where they are others."""
        steps = []
        for operator in _ROOT_BACKWARDS:
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


_MOST_PIXELS = 4096  # at 56 x 56 its largest error is 2.4 times Keras', at 224 x 224 3.4 times


def name_global_averages(graph: Any, sizes: KnownSizes) -> None:
    """Averages an image, in an `onnx.GraphProto` in place, by the operator for it: a convolution's own layout stays.

    ONNX Runtime's adds plainly, and of many pixels it loses more digits than Keras: an average of these stays a
    reduction.
    """
    from onnx import TensorProto

    for node in [node for node in graph.node if node.op_type == "ReduceMean"]:
        shape = sizes.shape(node.input[0]) or ()
        height, width = shape[2:] if len(shape) == 4 else (0, 0)
        is_whole = sizes.shape(node.output[0]) == (*shape[:2], 1, 1) and sizes.kind(node.input[0]) == TensorProto.FLOAT
        if is_whole and isinstance(height, int) and isinstance(width, int) and 1 < height * width <= _MOST_PIXELS:
            node.op_type, node.input[:] = "GlobalAveragePool", node.input[:1]
            del node.attribute[:]


def leave_negative_indices(graph: Any, sizes: KnownSizes) -> None:
    """Leaves negative indices to the Gathers of an `onnx.GraphProto`, in place: Keras adds the size to them itself."""
    producers = producers_of(graph)

    def inputs(tensor: str, operator: str) -> list[str]:
        node = producers.get(tensor)
        return list(node.input) if node is not None and node.op_type == operator else ["", "", ""]

    for gather in [node for node in graph.node if node.op_type == "Gather"]:
        axis = next((attribute.i for attribute in gather.attribute), 0)
        condition, moved, index = inputs(gather.input[1], "Where")
        asked, zero, *_ = inputs(condition, "Less")
        first, size, *_ = inputs(moved, "Add")
        is_asked = index in (asked, *inputs(asked, "Cast")[:1]) and sizes.vector(zero) == (0,)
        shape = sizes.shape(gather.input[0])
        if index and is_asked and first == index and shape is not None and sizes.vector(size) == (shape[axis],):
            gather.input[1] = index
