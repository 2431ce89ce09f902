"""Makes one of transpositions and Reshapes that follow one another, or none, and tells a Reshape its sizes.

What turns axes of a single pixel alone is a Reshape too. A 0 in a shape copies a size of what is reshaped: so a shape
whose sizes are numbers, or those of the same axes before, is a constant and need not be made in every run.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes
from keras_pe.export.onnx.finishing.constants import add_constant
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes, Sizes

_SHAPING = ("Reshape", "Squeeze", "Unsqueeze")


def join_shapes(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its tensors.

    Returns:
        What stands for each tensor that may be needed no more: what was turned twice and is as it was.
    """
    producers: dict[str, Any] = {}
    same: dict[str, str] = {}
    turned: dict[str, str] = {}
    outputs = {output.name for each in all_graphs(graph) for output in each.output}
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
        before = producers.get(node.input[0]) if node.input else None
        if _order(node) and before is not None and _order(before):
            order = [_order(before)[axis] for axis in _order(node)]
            node.input[0] = before.input[0]
            node.attribute[0].ints[:] = order
            if order == sorted(order) and node.output[0] not in outputs:
                same[node.output[0]] = turned[before.output[0]] = node.input[0]
        elif node.op_type == "Reshape" and not node.attribute and (shape := _told(graph, node, sizes)) is not None:
            _read_before(node, shape, producers, sizes)
        producers.update(dict.fromkeys(node.output, node))
    for node in all_nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]
    return turned | same


def _order(node: Any) -> list[int]:
    """Returns the axes of a transposition that names them; nothing of any other node."""
    return list(node.attribute[0].ints) if node.op_type == "Transpose" and node.attribute else []


def _told(graph: Any, node: Any, sizes: KnownSizes) -> Sizes | None:
    """Returns the shape that a Reshape is given, a constant now where each size is a number or that of the axis before;
    None where it is not known."""
    before, after = sizes.shape(node.input[0]), sizes.shape(node.output[0])
    if before is None or after is None or 0 in (*before, *after):
        return None
    shape = [0 if before[axis : axis + 1] == (size,) else size for axis, size in enumerate(after)]
    if not all(isinstance(size, int) for size in shape):
        return sizes.vector(node.input[1])
    shape = [size if isinstance(size, int) else 0 for size in after]
    node.input[1] = add_constant(graph, f"{node.output[0]}/sizes", np.array(shape, np.int64))
    return tuple(shape)


def _read_before(node: Any, shape: Sizes, producers: Mapping[str, Any], sizes: KnownSizes) -> None:
    """Lets a Reshape read what was reshaped before it, as far back as its shape tells the same sizes of that."""
    copied = [axis for axis, size in enumerate(shape) if size == 0]
    is_constant = all(isinstance(size, int) for size in shape)
    while is_constant and (before := producers.get(node.input[0])) is not None:
        ours, theirs = sizes.shape(node.input[0]), sizes.shape(before.input[0])
        is_reshaped = before.op_type in _SHAPING or _turns_nothing(before, theirs)
        if not is_reshaped or ours is None or theirs is None:
            return
        if any(ours[axis : axis + 1] != theirs[axis : axis + 1] for axis in copied):
            return
        node.input[0] = before.input[0]


def _turns_nothing(transpose: Any, shape: Sizes | None) -> bool:
    """Whether a node is a transposition that moves axes of one pixel past the others, which stay in their order."""
    order = [axis for axis in _order(transpose) if shape is not None and shape[axis] != 1]
    return bool(shape and _order(transpose)) and order == sorted(order)
