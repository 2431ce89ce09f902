"""Lets what lies between two convolutions of a line compute on images of one row, as the convolutions do.

TensorFlow gives a line an axis before each convolution and takes it away behind: the bias, a normalization and an
activation stand between the two, where no runtime can join them with the convolution.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes
from keras_pe.export.onnx.finishing.graph_edits import add_constant
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

ELEMENTWISE = (
    *("Abs", "Add", "Cast", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log"),
    *("Max", "Min", "Mul", "Neg", "Pow", "Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh"),
)
_OF_IMAGES = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
_Squeezed = tuple[str, tuple[Any, ...]]


def keep_rows(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Rewrites an `onnx.GraphProto` in place, whose nodes stand in the order in which they are computed: a Squeeze
    comes after what is done to each element, a Pad, a Concat or a Transpose, and an Unsqueeze that undoes it goes.
    Nodes that nothing needs any more are left behind.

    Returns:
        What stands for each tensor that may be needed no more: it, or the images of one row that it is made of.
    """
    from onnx import helper

    images = {name for node in graph.node if node.op_type in _OF_IMAGES for name in node.output}
    squeezed: dict[str, _Squeezed] = {}  # what is squeezed, and along which axes
    same: dict[str, str] = {}
    outputs = {output.name for each in all_graphs(graph) for output in each.output}
    nodes = []
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
        nodes.append(node)
        if (axes := _axes(node, sizes)) is not None:
            source, dropped = squeezed.get(node.input[0], ("", ()))
            if node.op_type == "Squeeze" and node.input[0] in images:
                squeezed[node.output[0]] = node.input[0], axes
            elif node.op_type == "Unsqueeze" and dropped == axes and node.output[0] not in outputs:
                same[node.output[0]] = source
        elif axes := _widened(graph, node, squeezed, sizes):
            narrow, wide = node.output[0], f"{node.output[0]}/wide"
            node.output[0] = wide
            squeezed[narrow] = wide, axes
            constant = add_constant(graph, f"{narrow}/axes", np.array(axes, np.int64))
            nodes.append(helper.make_node("Squeeze", [wide, constant], [narrow], f"{narrow}/Squeeze"))
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    for node in all_nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]
    return same | {narrow: wide for narrow, (wide, _) in squeezed.items()}


def _axes(node: Any, sizes: KnownSizes) -> tuple[Any, ...] | None:
    """Returns the axes that a Squeeze drops or an Unsqueeze adds, counted from the first; None of other nodes."""
    if node.op_type not in ("Squeeze", "Unsqueeze") or len(node.input) != 2:
        return None
    axes, shape = sizes.vector(node.input[1]), sizes.shape(node.output[0])
    if axes is None or shape is None:
        return None
    rank = len(shape) + (len(axes) if node.op_type == "Squeeze" else 0)
    return tuple(sorted(axis % rank for axis in axes if isinstance(axis, int)))


def _widened(graph: Any, node: Any, squeezed: Mapping[str, _Squeezed], sizes: KnownSizes) -> tuple[Any, ...]:
    """Lets a node read what is squeezed, if all that it reads is, but for constants.

    Returns:
        Along which axes what it returns is to be squeezed now; none where the node is left as it was.
    """
    from onnx import numpy_helper

    read = [name for name in node.input if name]
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer if each.name in read}
    tensors = [name for name in read if name not in constants]
    found = {squeezed.get(name, ("", ()))[1] for name in tensors}
    ranks = {len(sizes.shape(name) or ()) for name in (*tensors, node.output[0])}
    if (
        node.op_type not in (*ELEMENTWISE, "Concat", "Pad", "Transpose")
        or len(node.input) > 3
        or len(found) != 1
        or len(ranks) != 1
    ):
        return ()
    (axes,), (rank,) = found, ranks
    kept = [axis for axis in range(rank + len(axes)) if axis not in axes]
    wide = {name: squeezed[name][0] for name in tensors} if axes else {}
    if not wide or len(kept) != rank or (node.op_type == "Transpose" and not node.attribute):
        return ()
    if node.op_type == "Concat":
        node.attribute[0].i = kept[node.attribute[0].i]
    if node.op_type == "Transpose":  # behind the batch, where TensorFlow puts the axis of a line
        first, *order = (kept[axis] for axis in node.attribute[0].ints)
        node.attribute[0].ints[:] = [first, *axes, *order]
        axes = tuple(range(1, 1 + len(axes)))
    for name, value in constants.items():
        if node.op_type == "Pad" and name == node.input[1]:
            ends = np.zeros((2, rank + len(axes)), np.int64)
            ends[:, kept] = value.reshape(2, rank)
            wide[name] = add_constant(graph, f"{node.output[0]}/{name}/wide", ends.reshape(-1))
        elif value.size > 1:
            shape = np.ones(rank + len(axes), np.int64)
            shape[kept] = (1,) * (rank - value.ndim) + value.shape
            wide[name] = add_constant(graph, f"{node.output[0]}/{name}/wide", value.reshape(shape))
    node.input[:] = [wide.get(name, name) for name in node.input]
    return axes
