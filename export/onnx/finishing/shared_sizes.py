"""Asks for the sizes of equal tensors once, so that what is made of sizes is made once: masks, positions, shapes.

Each layer of a decoder makes a causal mask from the length of its own input, which is the length of them all. Where but
one of a tensor's sizes is read, only that is asked for.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes, Sizes


def share_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets each Shape of an `onnx.GraphProto`, in place, be of the first tensor that has these sizes, and what reads a
    vector of sizes read the first that is equal.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its tensors.
    """
    first: dict[Sizes, str] = {}
    made: dict[tuple[Sizes, int, int], str] = {}  # by the entries, the number of axes and the type
    same: dict[str, str] = {}
    outputs = {output.name for each in all_graphs(graph) for output in each.output}
    for node in graph.node:
        shape = sizes.shape(node.input[0]) if node.op_type == "Shape" else None
        if shape is not None:
            node.input[0] = first.setdefault(shape, node.input[0])
        name = next(iter(node.output), "")
        vector, axes, kind = sizes.vector(name), sizes.shape(name), sizes.kind(name)
        if vector is not None and axes is not None and kind is not None and name not in outputs:
            same[name] = made.setdefault((vector, len(axes), kind), name)
    for node in all_nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]


def ask_for_single_sizes(graph: Any) -> None:
    """Lets each Shape of which nothing but one slice is read, in place, be of that slice.

    TensorFlow cuts a size out of all of them, which are cast before: three nodes, where two are enough.
    """
    from onnx import TensorProto, helper, numpy_helper

    numbers = {
        tensor.name: int(numpy_helper.to_array(tensor)[0])
        for tensor in graph.initializer
        if tensor.data_type in (TensorProto.INT32, TensorProto.INT64) and tensor.dims == [1]
    }
    found = [(*nodes, *map(numbers.get, nodes[-1].input[1:3])) for nodes in _sliced_shapes(graph)]
    asked = Counter(tensor for tensor, *_ in {(shape.input[0], *bounds) for shape, _, _, *bounds in found})
    for shape, last, cut, start, end in found:
        if None not in (start, end) and asked[shape.input[0]] == 1:
            shape.attribute.extend([helper.make_attribute("start", start), helper.make_attribute("end", end)])
            last.output[0] = cut.output[0]
            graph.node.remove(cut)


def _sliced_shapes(graph: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields each Shape of which nothing but a slice is read, what is sliced, it or its Cast, and the Slice."""
    producers = {output: node for node in graph.node for output in node.output}
    readers = Counter(name for node in all_nodes(graph) for name in node.input)
    readers.update(output.name for each in all_graphs(graph) for output in each.output)
    for cut in graph.node:
        if cut.op_type != "Slice" or len(cut.input) == 5:  # the fifth are its steps
            continue
        last = producers.get(cut.input[0])
        shape = producers.get(last.input[0]) if last is not None and last.op_type == "Cast" else last
        if last is None or shape is None or shape.op_type != "Shape" or shape.attribute:
            continue
        if readers[shape.output[0]] == readers[last.output[0]] == 1:
            yield shape, last, cut
