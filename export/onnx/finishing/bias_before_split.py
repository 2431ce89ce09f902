"""Adds the bias of a projection before its result is split into heads: a product and a sum are one layer everywhere.

Keras splits first, so that the bias has the heads' shape. It is stored flat, see `store_as_read`.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes


def add_biases_before_splits(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Rewrites an `onnx.GraphProto` in place.

    Args:
        graph: The graph, whose weights are no initializers yet.
        shapes: The shape of each weight, by its name.
    """
    from onnx import helper, numpy_helper

    vectors = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 1}
    producers = {node.output[0]: node for node in graph.node if node.output}
    uses = Counter(name for node in all_nodes(graph) for name in node.input)
    uses.update(value.name for value in graph.output)

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
        flat, size, summed = f"{bias}/flat", f"{bias}/size", f"{result}/flat"
        graph.initializer.append(numpy_helper.from_array(np.array([width]), size))
        graph.node.insert(0, helper.make_node("Reshape", [bias, size], [flat]))
        _become(split, "Add", [product.output[0], flat], summed)
        _become(addition, "Reshape", [summed, shape], result)


def _become(node: Any, operator: str, inputs: list[str], output: str) -> None:
    """Makes of a node another one in its place."""
    del node.attribute[:]
    node.op_type, node.input[:], node.output[:] = operator, inputs, [output]
