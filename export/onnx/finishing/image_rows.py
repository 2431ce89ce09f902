"""The pass that runs 1-D convolutions and the operators between them on images of height 1.

TensorFlow adds an axis before each 1-D convolution and removes it after the convolution. The bias, a normalization and
an activation follow the removal, so no runtime can fuse them with the convolution.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    array,
    attribute,
    can_replace,
    constant,
    copy,
    nodes,
    order_of,
    replace,
    rewrite,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.operator_kinds import ALIKE
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_WINDOWED = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
_Squeezed = tuple[ir.Value, tuple[int, ...]]
"""The tensor before a Squeeze, and the axes."""


def run_1d_as_2d(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Moves the Squeeze after a 1-D convolution behind the operators that compute the same on images of one row.

    These are element-wise operators, Pads, Concats and Transposes. An Unsqueeze that undoes the Squeeze is removed.

    Args:
        graph: The graph, in topological order.
        sizes: The sizes of its values.
    """
    images = {value for node in nodes(graph, *_WINDOWED) for value in node.outputs}
    images |= {node.outputs[0] for node in nodes(graph, "Transpose") if node.inputs[0] in images}
    squeezed: dict[ir.Value, _Squeezed] = {}
    for node in list[Node](graph):
        result = node.outputs[0]
        if node.op_type in ("Squeeze", "Unsqueeze"):
            axes = tuple(sizes.axes(node))
            source = node.inputs[0]
            if node.op_type == "Squeeze" and source in images and axes:
                stand_for(result, source)
                squeezed[result] = source, axes
            elif node.op_type == "Unsqueeze" and source in squeezed:
                wide, dropped = squeezed[source]
                if dropped == axes and can_replace(result, wide):
                    replace(result, wide)
        elif (copied := _copy_before_squeeze(graph, node, squeezed, sizes)) is not None:
            wide, axes = copied
            narrow = rewrite(node, "Squeeze", [wide, sizes_constant(graph, axes)])
            stand_for(narrow, wide)
            squeezed[narrow] = wide, axes


def _copy_before_squeeze(
    graph: ir.Graph, node: Node, squeezed: Mapping[ir.Value, _Squeezed], sizes: KnownSizes
) -> _Squeezed | None:
    """Inserts a copy of a node that reads the tensors before their Squeeze, if the node reads only these and constants.

    Returns:
        The result of the copy, and the axes to squeeze; None if the node stays.
    """
    if node.op_type not in (*ALIKE, "Concat", "Pad", "Transpose") or len(node.inputs) > 3 or len(node.outputs) > 1:
        return None
    tensors = [value for value in node.inputs if value is not None and array(value) is None]
    found = {squeezed[value][1] if value in squeezed else () for value in tensors}
    ranks = {len(sizes.shape(value) or ()) for value in (*tensors, node.outputs[0])}
    if len(found) != 1 or len(ranks) != 1:
        return None
    (axes,), (rank,) = found, ranks
    kept = [axis for axis in range(rank + len(axes)) if axis not in axes]
    if not axes or len(kept) != rank:
        return None
    changed: dict[str, Any] = {}
    if node.op_type == "Concat":
        changed["axis"] = kept[attribute(node, "axis")]
    read = [_wide(graph, node, value, squeezed, kept, rank + len(axes)) for value in node.inputs]
    if node.op_type == "Transpose":  # TensorFlow adds the axis of the row after the batch
        first, *order = (kept[axis] for axis in order_of(node))
        changed["perm"] = [first, *axes, *order]
        axes = tuple(range(1, 1 + len(axes)))
    return copy(node, read, **changed), axes


def _wide(
    graph: ir.Graph,
    node: Node,
    value: ir.Value | None,
    squeezed: Mapping[ir.Value, _Squeezed],
    kept: list[int],
    rank: int,
) -> ir.Value | None:
    """Returns the input of the copy that corresponds to a value of the node."""
    numbers = array(value)
    if value is None or numbers is None:
        return value if value is None else squeezed[value][0]
    if node.op_type == "Pad" and value is node.inputs[1]:
        ends = np.zeros((2, rank), np.int64)
        ends[:, kept] = numbers.reshape(2, len(kept))
        return constant(graph, ends.reshape(-1))
    if numbers.size == 1:
        return value
    shape = np.ones(rank, np.int64)
    shape[kept] = (1,) * (len(kept) - numbers.ndim) + numbers.shape
    return constant(graph, numbers.reshape(shape))
