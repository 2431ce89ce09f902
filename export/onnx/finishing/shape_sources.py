"""The passes on the sizes that a graph computes: sources of shapes, and operators that read sizes.

A 0 in a shape copies a size of the reshaped tensor, unless `allowzero` is set.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    all_nodes,
    array,
    attribute,
    constant,
    copy,
    count_uses,
    insert,
    nodes,
    number,
    producer,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
)
from keras_pe.export.onnx.finishing.operator_sizes import Sizes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_REARRANGING = ("Cast", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")  # they only move sizes


def allow_empty_reshapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets the Reshapes of a graph, and of the graphs inside its nodes, accept sizes of zero.

    In the shape of an empty tensor, 0 means zero. A size of -1 whose value is known is written as a number. Constants
    and shapes with another -1 stay. The sizes of the reshaped tensor itself stay, too, since a runtime may have a
    faster form for them.
    """
    for node in all_nodes(graph, "Reshape"):
        shape = node.inputs[1]
        if 0 in (sizes.shape(node.inputs[0]) or ()):
            _allow_zero(node)
        elif array(shape) is None and not _write_inferred(node, sizes):
            sources = {value: array(value) for value in _sources(shape)}
            least = min((value.min(initial=1) for value in sources.values() if value is not None), default=1)
            if least > 0 and any(each is None and value is not node.inputs[0] for value, each in sources.items()):
                _allow_zero(node)


def _allow_zero(node: Node) -> None:
    node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)


def _write_inferred(node: Node, sizes: KnownSizes) -> bool:
    """Replaces the -1 in a shape by its number, if it is known: runtimes infer no size of an empty tensor."""
    shape, result = sizes.vector(node.inputs[1]), sizes.shape(node.outputs[0])
    if shape is None or result is None or -1 not in shape or 0 in shape:
        return False
    place = shape.index(-1)
    size = result[place]
    if not isinstance(size, int) or size < 1:
        return False
    more = [size + 1 if axis == place else 0 for axis in range(len(shape))]
    set_inputs(node, [node.inputs[0], insert(node, "Add", [node.inputs[1], sizes_constant(node.graph, more)])])
    _allow_zero(node)
    return True


def _sources(shape: ir.Value) -> Iterator[ir.Value]:
    """Yields the sources of a shape: constants, tensors whose sizes the shape contains, and other computed values."""
    waiting = [shape]
    while waiting:
        value = waiting.pop()
        node = producer(value)
        if node is None or node.graph is not shape.graph:
            yield value
        elif node.op_type == "Concat":
            waiting += node.inputs
        elif node.op_type in _REARRANGING:
            waiting.append(node.inputs[0])
        else:
            yield node.inputs[0] if node.op_type == "Shape" else value


def share_sizes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Merges the Shapes of tensors of equal sizes, and equal vectors of sizes: a mask is then computed once.

    Each layer of a decoder computes its causal mask from the length of its own input, and all lengths are equal.

    Args:
        graph: The graph, in topological order.
        sizes: The sizes of its values.
    """
    first: dict[Sizes, ir.Value] = {}
    vectors: dict[tuple[Sizes, int, int], ir.Value] = {}  # by the entries, the number of axes and the type
    node: Node
    for node in graph:
        shape = sizes.shape(node.inputs[0]) if node.op_type == "Shape" else None
        if shape is not None:
            set_inputs(node, [first.setdefault(shape, node.inputs[0])])
        if not node.outputs:
            continue
        result = node.outputs[0]
        vector, axes, kind = sizes.vector(result), sizes.shape(result), result.dtype
        if vector is not None and axes is not None and kind is not None and not result.is_graph_output():
            equal = vectors.setdefault((vector, len(axes), kind), result)
            if equal is not result:
                replace(result, equal)


_JOINING = ("Add", "Concat", "Mul", "Sub")  # all their inputs are sizes; of a rearranging operator, the first is


def count_in_64_bits(graph: ir.Graph) -> None:
    """Computes the shapes that operators read from sizes of 64 bits, if fewer nodes are left.

    TensorFlow casts the sizes of a tensor to 32 bits, and tf2onnx casts the shapes that they are arranged to back.
    """
    found = {cast: counting for cast in nodes(graph, "Cast") if (counting := _counting(cast))}
    narrow = {node for counting in found.values() for node in counting}
    ordered: list[Node] = [node for node in graph if node in narrow]
    inside = narrow | found.keys()
    read_too = {x for x in ordered if x.outputs[0].is_graph_output() or not inside.issuperset(x.outputs[0].consumers())}
    if len(found) + sum(node.op_type == "Cast" for node in narrow) <= len(read_too):
        return
    wide: dict[ir.Value | None, ir.Value] = {}
    for node in ordered:
        result = node.outputs[0]
        if node.op_type == "Cast":
            wide[result] = node.inputs[0]
            continue
        count = _count_sizes(node)
        for value in node.inputs[:count]:
            if value not in wide:
                wide[value] = constant(graph, np.asarray(array(value), np.int64))
        wide[result] = copy(node, [*(wide[value] for value in node.inputs[:count]), *node.inputs[count:]])
        wide[result].type = ir.TensorType(ir.DataType.INT64)
        if node in read_too:
            wide[rewrite(node, "Cast", [wide[result]], to=ir.DataType.INT32)] = wide[result]
    for cast in found:
        replace(cast.outputs[0], wide[cast.inputs[0]])


def _count_sizes(node: Node) -> int:
    """Returns how many inputs of a node are sizes. The others are indices or axes."""
    return len(node.inputs) if node.op_type in _JOINING else 1


def _counting(cast: Node) -> list[Node]:
    """Returns the nodes that compute the argument of a Cast to 64 bits from sizes; an empty list for other Casts."""
    found, waiting = list[Node](), [cast.inputs[0]]
    if cast.inputs[0].dtype != ir.DataType.INT32 or attribute(cast, "to") != ir.DataType.INT64:
        return []
    while waiting:
        value = waiting.pop()
        node = producer(value)
        if array(value) is not None or node in found:
            continue
        if node is None or node.graph is not cast.graph or node.op_type not in (*_JOINING, *_REARRANGING):
            return []
        found.append(node)
        if node.op_type != "Cast":
            waiting += node.inputs[: _count_sizes(node)]
        elif producer(node.inputs[0], "Shape") is None:
            return []
    return found


_LEAST_RANK = 4  # the least number of axes of an image


def read_single_sizes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Merges a Shape and the only Slice that reads it, and reads the size of an image from an input if possible.

    TensorFlow casts all sizes of a tensor and slices one of them: three nodes instead of two. ONNX Runtime changes the
    layout of an image before a Shape reads its size, as if the Shape read its numbers.
    """
    input_axes: dict[Any, tuple[ir.Value, int]] = {}
    for value in graph.inputs:
        for axis, size in enumerate(sizes.shape(value) or ()):
            input_axes.setdefault(size, (value, axis))
    found = [(*each, *(number(value) for value in each[-1].inputs[1:3])) for each in _sliced_shapes(graph)]
    counts = Counter(tensor for tensor, *_ in {(shape.inputs[0], *bounds) for shape, _, _, *bounds in found})
    for shape, last, cut, start, end in found:
        image = shape.inputs[0]
        if start is None or end is None or counts[image] != 1:
            continue
        known = sizes.shape(image) or ()
        if end == start + 1 and len(known) >= _LEAST_RANK and known[start] in input_axes:
            image, start = input_axes[known[start]]
            end = start + 1
        result = copy(shape, [image], start=int(start), end=int(end))
        replace(cut.outputs[0], result if last is shape else copy(last, [result]))
        remove(*dict.fromkeys((cut, last, shape)))


def _sliced_shapes(graph: ir.Graph) -> Iterator[tuple[Node, Node, Node]]:
    """Yields each Shape whose only reader is a Slice, perhaps after a Cast, with the sliced node and the Slice."""
    for cut in nodes(graph, "Slice"):
        last = producer(cut.inputs[0])
        shape = producer(last.inputs[0]) if last is not None and last.op_type == "Cast" else last
        # The fifth input of a Slice is its steps.
        if last is None or shape is None or shape.op_type != "Shape" or shape.attributes or len(cut.inputs) == 5:
            continue
        if count_uses(shape.outputs[0]) == count_uses(last.outputs[0]) == 1:
            yield shape, last, cut
