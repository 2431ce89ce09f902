"""The weights of a graph: stored as the operators that read them want them, and named where a constant is one.

Keras has the kernel of a convolution as (height, width, in, out), ONNX as (out, in, height, width). A runtime that
folds no constants would turn it in every run, and one that does would hold it twice while a file is opened.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.graph.tracing import Weight
from keras_pe.export.model.stored_weights import Layout
from keras_pe.export.onnx.finishing.graph_edits import (
    LAYER,
    WEIGHT,
    Node,
    add_weight,
    array,
    attribute,
    constant,
    insert,
    only_reader,
    producer,
    read_instead,
    remove,
)


def weights_of(graph: ir.Graph) -> list[ir.Value]:
    """Returns the inputs of a graph that are weights."""
    return [value for value in graph.inputs if WEIGHT in value.meta]


def store_as_read(graph: ir.Graph) -> None:
    """Takes the Transposes and Reshapes of weights out of a graph.

    A weight that is read in several ways is left as it is: it would be stored twice.
    """
    for value in weights_of(graph):
        weight: Weight = value.meta[WEIGHT]
        layout = weight.layout or Layout(weight.shape)
        while (reader := only_reader(value)) is not None:
            step = _step(reader, layout.shapes[-1])
            if step is None or reader.outputs[0].is_graph_output():
                break
            layout = layout.then(*step)
            reader.outputs[0].replace_all_uses_with(value)
            remove(reader)
        if layout.steps:
            add_weight(graph, replace(weight, layout=layout))


def _step(node: Node, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
    """Returns what a node does to its first input, if that is known without running it."""
    if node.op_type == "Transpose" and (order := attribute(node, "perm")):
        return "transpose", tuple(order)
    asked = array(node.inputs[1]) if len(node.inputs) == 2 else None
    if asked is None or node.attributes or 0 in shape:
        return None
    wanted = asked.tolist()
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


def multiply_unsigned(graph: ir.Graph) -> None:
    """Writes the products with int8 weights in uint8.

    ONNX Runtime multiplies these many times faster, and as exactly. Keras quantizes with a zero point of 0 on both
    sides of a product. Of numbers that are 128 more, with a zero point of 128, ONNX Runtime computes the same integers.
    With one side of each kind it would be faster still, and wrong on processors without VNNI, where sums of two
    products are cut to 16 bits.
    """
    moved = dict[ir.Value, ir.Value]()
    zero: ir.Value | None = None
    for value in weights_of(graph):
        weight, products = value.meta[WEIGHT], list[Node](value.consumers())
        if weight.dtype != np.int8 or not products or not all(_is_signed(node, value) for node in products):
            continue
        layout = weight.layout or Layout(weight.shape)
        add_weight(graph, replace(weight, layout=layout.then("unsigned", ())))
        zero = zero or constant(graph, np.uint8(_MORE))
        for product in products:
            factor = product.inputs[0]
            if factor not in moved:
                moved[factor] = _moved(factor, product)
            product.resize_inputs(4)
            for index, given in enumerate((moved[factor], value, zero, zero)):
                product.replace_input_with(index, given)
    graph.sort()


def _is_signed(node: Node, weight: ir.Value) -> bool:
    """Whether a node multiplies something that the graph computes by the weight, with zero points of 0."""
    if node.op_type != "MatMulInteger":
        return False
    first, second, *points = node.inputs
    values = [array(point) for point in points]
    are_zero = all(value is not None and not value.any() for value in values)
    return second is weight and producer(first) is not None and are_zero


def _moved(value: ir.Value, product: Node) -> ir.Value:
    """Returns what a product takes, made 128 more."""
    graph, signed, shift = product.graph, _before_cast(value), np.array(_MORE, np.float32)
    if signed is value:
        signed, shift = insert(product, "Cast", [value], to=ir.DataType.INT32), np.array(_MORE, np.int32)
    more = insert(product, "Add", [signed, constant(graph, shift)])
    return insert(product, "Cast", [more], to=ir.DataType.UINT8)


def _before_cast(value: ir.Value) -> ir.Value:
    """Returns the whole numbers from -128 to 127 that an int8 is made of, as floats; the int8 if it is not."""
    cast = producer(value, "Cast")
    clip = None if cast is None else producer(cast.inputs[0], "Clip")
    if cast is None or clip is None or producer(clip.inputs[0], "Round") is None:
        return value
    bounds = [number for bound in clip.inputs[1:] if (number := array(bound)) is not None]
    is_whole = len(bounds) == 2 and all(-_MORE <= bound < _MORE and bound == np.trunc(bound) for bound in bounds)
    return cast.inputs[0] if is_whole else value


def name_weights(graph: ir.Graph, layers: Mapping[str, Any]) -> None:
    """Makes a constant that is a weight of the layer that reads it that weight again, under its name in Keras.

    If a model has convolutions its vectors are constants, see `graph/tracing`, which passes turn and reshape. A
    constant stays one if its layer has no vector of these very numbers, or two.

    Args:
        graph: The graph.
        layers: The layers of the model, by path.
    """
    import keras

    taken = {value.name for value in (*graph.inputs, *graph.outputs)}
    found: dict[str, ir.Value] = {}
    node: Node
    for node in graph.all_nodes():
        layer = layers.get(node.meta[LAYER])
        if not isinstance(layer, keras.Layer):  # an operation of a model has a path as well, and no weights
            continue
        for value in dict.fromkeys(each for each in node.inputs if array(each) is not None):
            weight = _weight(layer, array(value))
            if weight is None or weight.name in taken:
                continue
            if weight.name not in found:
                found[weight.name] = add_weight(graph, weight)
            first = found[weight.name].meta[WEIGHT]
            if first.value is weight.value and first.layout == weight.layout:
                read_instead(node, value, found[weight.name])


def _weight(layer: Any, stored: Any) -> Weight | None:
    """Returns the one vector of a layer that a constant is, in whatever shape; None if there is none, or two."""
    alike = [v for v in layer.variables if len(v.shape) == 1 and v.shape[0] == stored.size and stored.ndim > 0]
    same = [v for v in alike if _is_same(np.asarray(v.value), stored)]
    if len(same) != 1:
        return None
    (variable,) = same
    layout = Layout((stored.size,))
    is_flat = stored.ndim == 1
    return Weight(variable.path, "", variable, None if is_flat else layout.then("reshape", stored.shape))


def _is_same(vector: Any, stored: Any) -> bool:
    return bool(vector.dtype == stored.dtype and vector.tobytes() == stored.tobytes())
