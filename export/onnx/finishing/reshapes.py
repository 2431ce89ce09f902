"""Reshapes: those that a file does without go, and of the others a size of zero is taken as it is meant.

For a Dense layer TensorFlow's `tensordot` flattens the leading dimensions, multiplies, and splits them again; ONNX's
MatMul takes any rank. An average over an image drops axes that a Reshape puts back; the reduction can keep them. Each
of them hides the sizes from a runtime, and with them that two tensors can be added as they lie in memory. Halves that
are stacked, and whose new axis is joined with the next, stand side by side: rotary positions turn channels so.

A 0 in a shape copies a size of what is reshaped, unless `allowzero` is set.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes, bodies
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
    for stack, reshape in _before_reshapes(graph, ("Concat",)):
        _set_side_by_side(graph, [producers.get(name) for name in stack.input], stack, reshape, sizes)
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


def _set_side_by_side(graph: Any, parts: Sequence[Any], stack: Any, reshape: Any, sizes: KnownSizes) -> None:
    """Joins tensors along the axis that their stack is joined with, without an axis of its own."""
    if any(part is None or part.op_type != "Unsqueeze" for part in parts):
        return
    stacked, (first, *others) = sizes.shape(stack.output[0]), [sizes.shape(part.input[0]) for part in parts]
    if stacked is None or first is None or any(other != first for other in others):
        return
    axis = stack.attribute[0].i % len(stacked)
    each = (*first[:axis], 1, *first[axis:])
    if axis == len(first) or any(sizes.shape(part.output[0]) != each for part in parts):
        return
    joined = first[axis]
    wide = (*first[:axis], len(parts) * joined, *first[axis + 1 :]) if isinstance(joined, int) else None
    if sizes.shape(reshape.output[0]) == wide:
        stack.input[:] = [part.input[0] for part in parts]
        stack.attribute[0].i = axis
        _skip(graph, stack, reshape)


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
