"""Writes products of int8 in uint8, which ONNX Runtime multiplies many times faster, and as exactly.

Keras quantizes with a zero point of 0 on both sides of a product. Of numbers that are 128 more, with a zero point of
128, ONNX Runtime computes the same integers. With one side of each kind it would be faster still, and wrong on
processors without VNNI, where sums of two products are cut to 16 bits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.layout import Layout
from keras_pe.export.artifacts.onnx_model import all_nodes

_MORE = 128
_ZERO, _SHIFT = "unsigned/zero", "unsigned/shift"


def multiply_unsigned(graph: Any, weights: Mapping[str, Any], layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Rewrites the products of an `onnx.GraphProto` with int8 weights, in place.

    Args:
        graph: The graph, whose weights are no initializers yet.
        weights: By name; each has a shape and a dtype.
        layouts: How weights are stored.

    Returns:
        The same, of the weights of products too.
    """
    from onnx import numpy_helper

    stored = dict(layouts)
    readers: dict[str, list[Any]] = {}
    for node in all_nodes(graph):
        for name in node.input:
            readers.setdefault(name, []).append(node)
    zeros = {tensor.name for tensor in graph.initializer if not numpy_helper.to_array(tensor).any()}
    own = {name for node in graph.node for name in node.output}
    for name, weight in weights.items():
        products = readers.get(name, [])
        if weight.dtype == np.int8 and products and all(_is_signed(node, name, own, zeros) for node in products):
            stored[name] = layouts.get(name, Layout(weight.shape)).then("unsigned", ())
            for product in products:
                product.input[:] = [_moved(graph, product), name, _ZERO, _ZERO]
    if stored != layouts:
        graph.initializer.append(numpy_helper.from_array(np.array(_MORE, np.uint8), _ZERO))
        graph.initializer.append(numpy_helper.from_array(np.array(_MORE, np.int32), _SHIFT))
    return stored


def _is_signed(node: Any, weight: str, own: set[str], zeros: set[str]) -> bool:
    """Whether a node multiplies something that the graph computes by the weight, with zero points of 0."""
    if node.op_type != "MatMulInteger":
        return False
    first, second, *points = node.input
    return second == weight and first in own and zeros.issuperset(points)


def _moved(graph: Any, product: Any) -> str:
    """Returns what a product takes, made 128 more; it is the same for all that take it."""
    from onnx import TensorProto, helper

    name = product.input[0]
    wide, more, moved = (f"{name}/{each}" for each in ("wide", "more", "unsigned"))
    place = next(index for index, node in enumerate(graph.node) if name in node.output) + 1
    if place == len(graph.node) or graph.node[place].output[0] != wide:
        graph.node.insert(place, helper.make_node("Cast", [more], [moved], to=TensorProto.UINT8))
        graph.node.insert(place, helper.make_node("Add", [wide, _SHIFT], [more]))
        graph.node.insert(place, helper.make_node("Cast", [name], [wide], to=TensorProto.INT32))
    return moved
