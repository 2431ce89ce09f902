"""The weights of a graph: their layout in the file, and the names of constants that are weights.

Keras has the kernel of a convolution as (height, width, in, out), ONNX as (out, in, height, width). A runtime without
constant folding would transpose the kernel in every run; a runtime with folding would copy it when it opens the file.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.graph.trace_function import Weight
from keras_pe.export.model.stored_weights import Layout
from keras_pe.export.onnx.finishing.graph_edits import (
    LAYER,
    WEIGHT,
    Node,
    add_weight,
    array,
    constant,
    insert,
    only_reader,
    order_of,
    producer,
    read_instead,
    remove,
    set_inputs,
    set_weight,
)


def weights_of(graph: ir.Graph) -> list[ir.Value]:
    """Returns the inputs of a graph that are weights."""
    return [value for value in graph.inputs if WEIGHT in value.meta]


def store_as_read(graph: ir.Graph) -> None:
    """Removes the Transposes and Reshapes of weights, which are stored in the layout that their reader needs.

    A weight with several readers stays, since it would be stored twice.
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
            set_weight(value, replace(weight, layout=layout))


def _step(node: Node, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
    """Returns the step of a layout that a node with a weight as its first input is; None for other nodes."""
    if order := order_of(node):
        return "transpose", tuple(order)
    numbers = array(node.inputs[1]) if len(node.inputs) == 2 else None
    if numbers is None or node.attributes or 0 in shape:
        return None
    wanted = numbers.tolist()
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


_OFFSET = 128


def multiply_unsigned(graph: ir.Graph) -> None:
    """Writes the products with int8 weights in uint8, which ONNX Runtime multiplies many times faster.

    Keras quantizes both factors with a zero point of 0. With 128 added to the numbers and a zero point of 128, ONNX
    Runtime computes the same integers. A product of uint8 and int8 would be faster still, but wrong on processors
    without VNNI, where sums of two products saturate at 16 bits.
    """
    unsigned = dict[ir.Value, ir.Value]()
    zero: ir.Value | None = None
    for value in weights_of(graph):
        weight, products = value.meta[WEIGHT], list[Node](value.consumers())
        if weight.dtype != np.int8 or not products or not all(_is_signed(node, value) for node in products):
            continue
        layout = weight.layout or Layout(weight.shape)
        set_weight(value, replace(weight, layout=layout.then("unsigned", ())))
        zero = zero or constant(graph, np.uint8(_OFFSET))
        for product in products:
            factor = product.inputs[0]
            if factor not in unsigned:
                unsigned[factor] = _add_offset(factor, product)
            set_inputs(product, (unsigned[factor], value, zero, zero))
    graph.sort()


def _is_signed(node: Node, weight: ir.Value) -> bool:
    """Whether a node multiplies a computed tensor by the weight, with zero points of 0."""
    if node.op_type != "MatMulInteger":
        return False
    first, second, *points = node.inputs
    values = [array(point) for point in points]
    are_zero = all(value is not None and not value.any() for value in values)
    return second is weight and producer(first) is not None and are_zero


def _add_offset(value: ir.Value, product: Node) -> ir.Value:
    """Returns an int8 factor of a product as uint8, with 128 added."""
    graph, signed, shift = product.graph, _before_cast(value), np.array(_OFFSET, np.float32)
    if signed is value:
        signed, shift = insert(product, "Cast", [value], to=ir.DataType.INT32), np.array(_OFFSET, np.int32)
    more = insert(product, "Add", [signed, constant(graph, shift)])
    return insert(product, "Cast", [more], to=ir.DataType.UINT8)


def _before_cast(value: ir.Value) -> ir.Value:
    """Returns the float tensor of integers from -128 to 127 that an int8 is cast from; the int8 for other sources."""
    cast = producer(value, "Cast")
    clip = None if cast is None else producer(cast.inputs[0], "Clip")
    if cast is None or clip is None or producer(clip.inputs[0], "Round") is None:
        return value
    bounds = [number for bound in clip.inputs[1:] if (number := array(bound)) is not None]
    is_whole = len(bounds) == 2 and all(-_OFFSET <= bound < _OFFSET and bound == np.trunc(bound) for bound in bounds)
    return cast.inputs[0] if is_whole else value


def name_weights(graph: ir.Graph, layers: Mapping[str, Any]) -> None:
    """Replaces a constant that equals a weight of its layer by that weight, under its name in Keras.

    The vectors of models with convolutions are constants, see `graph/trace_function`. Passes transpose and reshape
    them. A constant stays if its layer has no vector of equal numbers, or two.

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
        if not isinstance(layer, keras.Layer):  # an operation of a model has a path, but no weights
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
    """Returns the only vector of a layer that equals a constant of any shape; None if no vector does, or two do."""
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
