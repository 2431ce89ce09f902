"""Reshapes and the sizes that they ask for: what a file does without goes, and a size of zero is taken as it is meant.

For a Dense layer TensorFlow's `tensordot` flattens the leading dimensions, multiplies, and splits them again; ONNX's
MatMul takes any rank. An average over an image drops axes that a Reshape puts back; the reduction can keep them. Each
of them hides the sizes from a runtime, and with them that two tensors can be added as they lie in memory. Halves that
are stacked, and whose new axis is joined with the next, stand side by side: rotary positions turn channels so.

A 0 in a shape copies a size of what is reshaped, unless `allowzero` is set.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes, bodies
from keras_pe.export.onnx.finishing.graph_edits import add_constant, count_uses, outputs_of, producers_of, read_instead
from keras_pe.export.onnx.finishing.symbolic_sizes import REDUCTIONS, KnownSizes, Sizes

_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze")
_SHAPING = ("Expand", *_RESHAPING)


def remove_needless_reshapes(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind.

    Returns:
        Which tensor is read now in place of each that was only a name of the same.
    """
    producers = producers_of(graph)
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
    outputs = outputs_of(graph)
    nodes = [node for node in graph.node if node.op_type in operators and node.output[0] not in outputs]
    read = [(node, *users.get(node.output[0], [])) for node in nodes]
    shaped = [pair for pair in read if len(pair) == 2 and pair[1].op_type in ("Reshape", "Unsqueeze")]
    return [pair for pair in shaped if pair[1].input[0] == pair[0].output[0]]


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
    outputs = outputs_of(graph)
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
    read_instead(graph, same)
    return same


_REARRANGING = ("Cast", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")  # they compute no size of their own


def take_zero_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets the Reshapes of an `onnx.GraphProto` take a size of zero, in place.

    Where nothing is reshaped, a 0 is meant so, and a size to infer that is known is told. Elsewhere are left as they
    are: a constant shape, one with a size to infer, and one of sizes of the very tensor, which a runtime may know a
    faster form of.
    """
    from onnx import TensorProto, helper, numpy_helper

    producers = producers_of(graph)
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
    from onnx import helper

    asked, found = sizes.vector(node.input[1]), sizes.shape(node.output[0])
    if asked is None or found is None or -1 not in asked or 0 in asked:
        return False
    place = asked.index(-1)
    size = found[place]
    if not isinstance(size, int) or size < 1:
        return False
    more = np.array([size + 1 if axis == place else 0 for axis in range(len(asked))], np.int64)
    name = f"{node.output[0]}/told"
    told = helper.make_node("Add", [node.input[1], add_constant(graph, f"{node.output[0]}/more", more)], [name], name)
    graph.node.insert(list(graph.node).index(node), told)
    node.input[1] = name
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


def join_shapes(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Makes of transpositions and Reshapes that follow one another one or none, in an `onnx.GraphProto` in place.

    What turns axes of a single pixel alone is a Reshape too. A shape whose sizes are numbers, or those of the same axes
    before, becomes a constant that need not be made in every run. Nodes that nothing needs any more are left behind.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its tensors.

    Returns:
        What stands for each tensor that may be needed no more: what was turned twice and is as it was.
    """
    producers: dict[str, Any] = {}
    same: dict[str, str] = {}
    turned: dict[str, str] = {}
    outputs = outputs_of(graph)
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
    read_instead(graph, same)
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
        is_reshaped = before.op_type in _RESHAPING or _turns_nothing(before, theirs)
        if not is_reshaped or ours is None or theirs is None:
            return
        if any(ours[axis : axis + 1] != theirs[axis : axis + 1] for axis in copied):
            return
        node.input[0] = before.input[0]


def _turns_nothing(transpose: Any, shape: Sizes | None) -> bool:
    """Whether a node is a transposition that moves axes of one pixel past the others, which stay in their order."""
    order = [axis for axis in _order(transpose) if shape is not None and shape[axis] != 1]
    return bool(shape and _order(transpose)) and order == sorted(order)


def share_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets each Shape of an `onnx.GraphProto`, in place, be of the first tensor that has these sizes, and what reads a
    vector of sizes read the first that is equal: masks, positions and shapes are then made once.

    Each layer of a decoder makes a causal mask from the length of its own input, which is the length of them all.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its tensors.
    """
    first: dict[Sizes, str] = {}
    made: dict[tuple[Sizes, int, int], str] = {}  # by the entries, the number of axes and the type
    same: dict[str, str] = {}
    outputs = outputs_of(graph)
    for node in graph.node:
        shape = sizes.shape(node.input[0]) if node.op_type == "Shape" else None
        if shape is not None:
            node.input[0] = first.setdefault(shape, node.input[0])
        name = next(iter(node.output), "")
        vector, axes, kind = sizes.vector(name), sizes.shape(name), sizes.kind(name)
        if vector is not None and axes is not None and kind is not None and name not in outputs:
            same[name] = made.setdefault((vector, len(axes), kind), name)
    read_instead(graph, same)


_IMAGES = 4  # axes, at least


def ask_for_single_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets each Shape of which nothing but one slice is read, in place, be of that slice, and one of images be of an
    input that has the same size where there is one.

    TensorFlow cuts a size out of all of them, which are cast before: three nodes, where two are enough. And ONNX
    Runtime reorders images whose size is asked for, as if their numbers were read.
    """
    from onnx import TensorProto, helper, numpy_helper

    given: dict[Any, tuple[str, int]] = {}
    for value in graph.input:
        for axis, size in enumerate(sizes.shape(value.name) or ()):
            given.setdefault(size, (value.name, axis))
    numbers = {
        tensor.name: int(numpy_helper.to_array(tensor)[0])
        for tensor in graph.initializer
        if tensor.data_type in (TensorProto.INT32, TensorProto.INT64) and tensor.dims == [1]
    }
    found = [(*nodes, *map(numbers.get, nodes[-1].input[1:3])) for nodes in _sliced_shapes(graph)]
    asked = Counter(tensor for tensor, *_ in {(shape.input[0], *bounds) for shape, _, _, *bounds in found})
    for shape, last, cut, start, end in found:
        if None not in (start, end) and asked[shape.input[0]] == 1:
            known = sizes.shape(shape.input[0]) or ()
            if end == start + 1 and len(known) >= _IMAGES and known[start] in given:
                shape.input[0], start = given[known[start]]
                end = start + 1
            shape.attribute.extend([helper.make_attribute("start", start), helper.make_attribute("end", end)])
            last.output[0] = cut.output[0]
            graph.node.remove(cut)


def _sliced_shapes(graph: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields each Shape of which nothing but a slice is read, what is sliced, it or its Cast, and the Slice."""
    producers, uses = producers_of(graph), count_uses(graph)
    for cut in graph.node:
        if cut.op_type != "Slice" or len(cut.input) == 5:  # the fifth are its steps
            continue
        last = producers.get(cut.input[0])
        shape = producers.get(last.input[0]) if last is not None and last.op_type == "Cast" else last
        if last is None or shape is None or shape.op_type != "Shape" or shape.attribute:
            continue
        if uses[shape.output[0]] == uses[last.output[0]] == 1:
            yield shape, last, cut
