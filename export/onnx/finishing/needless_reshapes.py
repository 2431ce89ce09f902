"""Takes out Reshapes that a file does without: around a product, after a reduction, and to the shape that is there.

For a Dense layer TensorFlow's `tensordot` flattens the leading dimensions, multiplies, and splits them again; ONNX's
MatMul takes any rank. An average over an image drops axes that a Reshape puts back; the reduction can keep them. Each
of them hides the sizes from a runtime, and with them that two tensors can be added as they lie in memory.
"""

from collections.abc import Sequence
from typing import Any

from keras_pe.export.artifacts.onnx_graph import all_graphs, all_nodes
from keras_pe.export.onnx.finishing.symbolic_sizes import REDUCTIONS, KnownSizes

_SHAPING = ("Expand", "Reshape", "Squeeze", "Unsqueeze")


def remove_needless_reshapes(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind.

    Returns:
        Which tensor is read now in place of each that was only a name of the same.
    """
    producers = {output: node for node in graph.node for output in node.output}
    for product, split in _before_reshapes(graph, ("MatMul", "Gemm")):
        _remove_flattening(graph, producers.get(product.input[0]), product, split, sizes)
    for reduction, reshape in _before_reshapes(graph, REDUCTIONS):
        _keep_axes(graph, reduction, reshape, sizes)
    return _without_effect(graph, sizes)


def _before_reshapes(graph: Any, operators: Sequence[str]) -> list[tuple[Any, ...]]:
    """Returns the nodes of these operators of which nothing but a Reshape or an Unsqueeze is read, each with that."""
    users: dict[str, list[Any]] = {}
    for node in all_nodes(graph):
        for name in node.input:
            users.setdefault(name, []).append(node)
    outputs = _outputs(graph)
    nodes = [node for node in graph.node if node.op_type in operators and node.output[0] not in outputs]
    read = [(node, *users.get(node.output[0], [])) for node in nodes]
    shaped = [pair for pair in read if len(pair) == 2 and pair[1].op_type in ("Reshape", "Unsqueeze")]
    return [pair for pair in shaped if pair[1].input[0] == pair[0].output[0]]


def _outputs(graph: Any) -> set[str]:
    """Returns what a graph returns, or one in the attributes of its nodes."""
    return {output.name for each in all_graphs(graph) for output in each.output}


def _remove_flattening(graph: Any, flatten: Any, product: Any, split: Any, sizes: KnownSizes) -> None:
    """Takes out the Reshapes before and after a product, and what computes their shapes, if one undoes the other."""
    weight = sizes.shape(product.input[1]) or ()
    if (
        len(product.input) != 2
        or product.attribute  # a Gemm that transposes or scales
        or flatten is None
        or flatten.op_type != "Reshape"
        or split.op_type != "Reshape"
        or len(weight) != 2
    ):
        return
    source = flatten.input[0]
    wanted = (sizes.shape(source) or ())[:-1]
    # As many elements come out as go in, so these leading sizes leave the flattened one for the last axis alone.
    if wanted and sizes.vector(split.input[1]) == (*wanted, weight[1]):
        product.op_type = "MatMul"
        product.input[0] = source
        _skip(graph, product, split)


def _keep_axes(graph: Any, reduction: Any, reshape: Any, sizes: KnownSizes) -> None:
    """Lets a reduction keep the axes that it drops and a Reshape puts back."""
    kept = sizes.with_axes_kept(reduction)
    for attribute in reduction.attribute:
        if attribute.name == "keepdims" and not attribute.i and kept and kept == sizes.shape(reshape.output[0]):
            attribute.i = 1
            _skip(graph, reduction, reshape)


def _skip(graph: Any, node: Any, reshape: Any) -> None:
    node.output[0] = reshape.output[0]
    graph.node.remove(reshape)


def _without_effect(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Lets what comes after a node that shapes a tensor as it was read that tensor itself."""
    same: dict[str, str] = {}
    shaped: dict[str, str] = {}  # what each Reshape is of, in however many steps
    outputs = _outputs(graph)
    for node in graph.node:
        if node.op_type in _SHAPING:
            before = same.get(node.input[0], node.input[0])
            first = shaped.get(before, before)
            if node.op_type != "Expand":
                shaped[node.output[0]] = first
            shape = sizes.shape(node.output[0])
            as_it_was = [name for name in (before, first) if sizes.shape(name) == shape]
            if as_it_was and shape is not None and node.output[0] not in outputs:
                same[node.output[0]] = as_it_was[0]
    for node in all_nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]
    return same
