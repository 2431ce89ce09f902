"""Reshapes to a size of zero: a 0 copies a size of what is reshaped, unless `allowzero` is set."""

from collections.abc import Iterator, Mapping
from typing import Any

from keras_pe.export.artifacts.onnx_graph import bodies
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_REARRANGING = ("Cast", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")  # they compute no size of their own


def take_zero_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets the Reshapes of an `onnx.GraphProto` take a size of zero, in place.

    Where nothing is reshaped, a 0 is meant so, and a size to infer that is known is told. Elsewhere are left as they
    are: a constant shape, one with a size to infer, and one of sizes of the very tensor, which a runtime may know a
    faster form of.
    """
    from onnx import TensorProto, helper, numpy_helper

    producers = {output: node for node in graph.node for output in node.output}
    constants = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_type in (TensorProto.INT32, TensorProto.INT64) and len(tensor.dims) <= 1
    }
    for node in tuple(graph.node):
        for body in bodies(node):
            take_zero_sizes(body, sizes)
        if node.op_type != "Reshape":
            continue
        if 0 in (sizes.shape(node.input[0]) or ()):
            node.attribute.append(helper.make_attribute("allowzero", 1))
        elif node.input[1] not in constants and not _tell_inferred(graph, node, sizes):
            sources = list(_sources(node.input[1], producers))
            least = min((constants[name].min(initial=1) for name in sources if name in constants), default=1)
            if least > 0 and any(name not in constants and name != node.input[0] for name in sources):
                node.attribute.append(helper.make_attribute("allowzero", 1))


def _tell_inferred(graph: Any, node: Any, sizes: KnownSizes) -> bool:
    """Writes the size that a Reshape infers, where it is a number: of nothing, runtimes infer none.

    Returns:
        Whether it has.
    """
    import numpy as np
    from onnx import helper, numpy_helper

    asked, found = sizes.vector(node.input[1]), sizes.shape(node.output[0])
    if asked is None or found is None or -1 not in asked or 0 in asked:
        return False
    place = asked.index(-1)
    size = found[place]
    if not isinstance(size, int) or size < 1:
        return False
    more = np.array([size + 1 if axis == place else 0 for axis in range(len(asked))], np.int64)
    names = [f"{node.output[0]}/{name}" for name in ("more", "told")]
    graph.initializer.append(numpy_helper.from_array(more, names[0]))
    told = helper.make_node("Add", [node.input[1], names[0]], names[1:], names[1])
    graph.node.insert(list(graph.node).index(node), told)
    node.input[1] = names[1]
    node.attribute.append(helper.make_attribute("allowzero", 1))
    return True


def _sources(shape: str, producers: Mapping[str, Any]) -> Iterator[str]:
    """Yields what a shape is made of: constants, tensors whose sizes these are, and what else is computed."""
    waiting = [shape]
    while waiting:
        name = waiting.pop()
        node = producers.get(name)
        if node is None:
            yield name
        elif node.op_type == "Concat":
            waiting += node.input
        elif node.op_type in _REARRANGING:
            waiting.append(node.input[0])
        else:
            yield node.input[0] if node.op_type == "Shape" else name
