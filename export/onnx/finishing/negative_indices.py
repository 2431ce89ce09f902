"""Leaves negative indices to ONNX's Gather, which counts them from the end; Keras adds the size to them itself."""

from typing import Any

from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def leave_negative_indices(graph: Any, sizes: KnownSizes) -> None:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind."""
    producers = {output: node for node in graph.node for output in node.output}

    def inputs(tensor: str, operator: str) -> list[str]:
        node = producers.get(tensor)
        return list(node.input) if node is not None and node.op_type == operator else ["", "", ""]

    for gather in [node for node in graph.node if node.op_type == "Gather"]:
        axis = next((attribute.i for attribute in gather.attribute), 0)
        condition, moved, index = inputs(gather.input[1], "Where")
        asked, zero, *_ = inputs(condition, "Less")
        first, size, *_ = inputs(moved, "Add")
        is_asked = index in (asked, *inputs(asked, "Cast")[:1]) and sizes.vector(zero) == (0,)
        shape = sizes.shape(gather.input[0])
        if index and is_asked and first == index and shape is not None and sizes.vector(size) == (shape[axis],):
            gather.input[1] = index
