"""Stores a weight as the operators that read it want it, turned, in another shape, or unsigned.

Keras has the kernel of a convolution as (height, width, in, out), ONNX as (out, in, height, width). A runtime that
folds no constants would turn it in every run, and one that does would hold it twice while a file is opened.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes, bodies
from keras_pe.export.model.stored_weights import Layout
from keras_pe.export.onnx.finishing.graph_edits import add_constant, producers_of, set_nodes


def store_as_read(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
    """Takes the Transposes and Reshapes of weights out of an `onnx.GraphProto` in place.

    A weight that is read in several ways is left as it is: it would be stored twice.

    Args:
        graph: The graph, whose weights are no initializers yet.
        shapes: The shape of each weight, by its name.

    Returns:
        How each weight whose nodes are gone is to be stored.
    """
    readers: dict[str, list[Any]] = {}
    for node in all_nodes(graph):
        for name in (*node.input, *(output.name for body in bodies(node) for output in body.output)):
            readers.setdefault(name, []).append(node)
    own = producers_of(graph)
    outputs = {output.name for output in graph.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    stored: dict[str, Layout] = {}
    gone: set[str] = set()
    for weight, shape in shapes.items():
        name, layout = weight, Layout(shape)
        while name not in outputs and len(readers.get(name, ())) == 1:
            (reader,) = readers[name]
            step = _step(reader, layout.shapes[-1], constants)
            result = reader.output[0]
            if step is None or own.get(result) is not reader or result in outputs:
                break
            layout, name = layout.then(*step), result
            gone.add(name)
        if layout.steps:
            stored[weight] = layout
            for reader in readers.get(name, ()):
                reader.input[:] = [weight if each == name else each for each in reader.input]
    set_nodes(graph, [node for node in graph.node if not gone.intersection(node.output)])
    return stored


def _step(node: Any, shape: tuple[int, ...], constants: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    """Returns what a node does to its first input, if that is known without running it."""
    from onnx import numpy_helper

    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Transpose" and "perm" in attributes:
        return "transpose", tuple(attributes["perm"].ints)
    if len(node.input) != 2 or node.input[1] not in constants or attributes or 0 in shape:
        return None
    wanted = numpy_helper.to_array(constants[node.input[1]]).tolist()
    if node.op_type == "Unsqueeze":
        rest, rank = iter(shape), len(shape) + len(wanted)
        added = {axis % rank for axis in wanted}
        return "reshape", tuple(1 if axis in added else next(rest) for axis in range(rank))
    if node.op_type == "Reshape":
        sizes = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
        if -1 in sizes:
            sizes[sizes.index(-1)] = math.prod(shape) // -math.prod(sizes)
        return "reshape", tuple(sizes)
    return None


_MORE = 128
_ZERO, _SHIFT = "unsigned/zero", "unsigned/shift"


def multiply_unsigned(graph: Any, weights: Mapping[str, Any], layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Writes the products of an `onnx.GraphProto` with int8 weights in uint8, in place.

    ONNX Runtime multiplies these many times faster, and as exactly. Keras quantizes with a zero point of 0 on both
    sides of a product. Of numbers that are 128 more, with a zero point of 128, ONNX Runtime computes the same integers.
    With one side of each kind it would be faster still, and wrong on processors without VNNI, where sums of two
    products are cut to 16 bits.

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
        add_constant(graph, _ZERO, np.uint8(_MORE))
        add_constant(graph, _SHIFT, np.int32(_MORE))
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
