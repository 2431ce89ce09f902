"""Asks for the sizes of equal tensors once, so that what is made of sizes is made once: masks, positions, shapes.

Each layer of a decoder makes a causal mask from the length of its own input, which is the length of them all.
"""

from typing import Any

from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes, Sizes


def share_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets each Shape of an `onnx.GraphProto`, in place, be of the first tensor that has these sizes.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its tensors.
    """
    first: dict[Sizes, str] = {}
    for node in graph.node:
        shape = sizes.shape(node.input[0]) if node.op_type == "Shape" else None
        if shape is not None:
            node.input[0] = first.setdefault(shape, node.input[0])
