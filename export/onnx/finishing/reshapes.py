"""Reshapes and the sizes that they ask for: what a file does without goes, and a size of zero is taken as it is meant.

For a Dense layer TensorFlow's `tensordot` flattens the leading dimensions, multiplies, and splits them again; ONNX's
MatMul takes any rank. An average over an image drops axes that a Reshape puts back; the reduction can keep them. Each
of them hides the sizes from a runtime, and with them that two tensors can be added as they lie in memory. Halves that
are stacked, and whose new axis is joined with the next, stand side by side: rotary positions turn channels so.

A 0 in a shape copies a size of what is reshaped, unless `allowzero` is set.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    all_nodes,
    array,
    attribute,
    can_replace,
    copy,
    count_uses,
    insert,
    nodes,
    only_reader,
    producer,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import BROADCASTING, ELEMENTWISE, REDUCTIONS, KnownSizes, Sizes

_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze")
_SHAPING = ("Expand", *_RESHAPING)


def remove_needless_reshapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Takes out the Reshapes around products, reductions and stacks that these do without, and what shapes nothing."""
    for product in nodes(graph, "MatMul", "Gemm"):
        _without_flattening(product, sizes)
    for operators, undone in ((REDUCTIONS, _keeps_axes), (("Concat",), _stands_side_by_side)):
        for node in nodes(graph, *operators):
            reshape = only_reader(node.outputs[0], "Reshape", "Unsqueeze")
            if reshape is not None and reshape.inputs[0] is node.outputs[0]:
                undone(node, reshape, sizes)
    _without_effect(graph, sizes)


def _without_flattening(product: Node, sizes: KnownSizes) -> None:
    """Lets a product take what is flattened before it and split again behind it, if one undoes the other, and so what
    is done to each row between the two, as a bias and an activation are."""
    weight, flatten = sizes.shape(product.inputs[1]) or (), producer(product.inputs[0], "Reshape")
    is_plain = len(product.inputs) == 2 and not product.attributes  # a Gemm with attributes transposes or scales
    if not is_plain or len(weight) != 2 or flatten is None:
        return
    between, rows = list[Node](), product.outputs[0]
    reader = only_reader(rows)
    while reader is not None and reader.op_type != "Reshape" and _is_of_rows(reader, rows, sizes):
        between.append(reader)
        rows = reader.outputs[0]
        reader = only_reader(rows)
    source = flatten.inputs[0]
    wanted = (sizes.shape(source) or ())[:-1]
    shapes = [sizes.shape(node.outputs[0]) or () for node in (product, *between)]
    # As many elements come out as go in, so these leading sizes leave the flattened one for the last axis alone.
    if reader is None or reader.inputs[0] is not rows or not wanted or not all(shapes):
        return
    if reader.op_type != "Reshape" or sizes.shape(reader.outputs[0]) != (*wanted, shapes[-1][-1]):
        return
    split = reader.outputs[0]
    result = rewrite(product, "MatMul", [source, product.inputs[1]])
    for node in between:
        read = [
            result if value is not None and value.producer() in (product, *between) else value for value in node.inputs
        ]
        result = copy(node, read, before=reader)
        stand_for(node.outputs[0], result)
    replace(split, result)
    remove(reader)


def _is_of_rows(node: Node, rows: ir.Value, sizes: KnownSizes) -> bool:
    """Whether a node does the same to each row, of however many axes of them: to each number, or by a vector."""
    others = [sizes.shape(value) for value in node.inputs if value is not rows]
    is_elementwise = node.op_type in (*BROADCASTING, *ELEMENTWISE)
    return is_elementwise and all(shape is not None and len(shape) < 2 for shape in others)


def _keeps_axes(reduction: Node, reshape: Node, sizes: KnownSizes) -> None:
    """Lets a reduction keep the axes that it drops and a Reshape puts back."""
    kept = sizes.with_axes_kept(reduction)
    if kept and kept == sizes.shape(reshape.outputs[0]) and attribute(reduction, "keepdims") == 0:
        _take_over(reshape, reduction, reduction.inputs, keepdims=1)


def _take_over(reshape: Node, node: Node, inputs: Sequence[ir.Value | None], **attributes: Any) -> None:
    """Puts an operator in the place of a node and of the Reshape behind it."""
    result = copy(node, inputs, **attributes)
    stand_for(node.outputs[0], result)
    replace(reshape.outputs[0], result)
    remove(reshape, node)


def _stands_side_by_side(stack: Node, reshape: Node, sizes: KnownSizes) -> None:
    """Joins tensors along the axis that their stack is joined with, without an axis of its own."""
    parts = [part for value in stack.inputs if (part := producer(value, "Unsqueeze")) is not None]
    stacked, shapes = sizes.shape(stack.outputs[0]), [sizes.shape(part.inputs[0]) for part in parts]
    if len(parts) != len(stack.inputs) or stacked is None or (first := shapes[0]) is None or set(shapes) != {first}:
        return
    axis = attribute(stack, "axis") % len(stacked)
    each = (*first[:axis], 1, *first[axis:])
    if axis == len(first) or any(sizes.shape(part.outputs[0]) != each for part in parts):
        return
    joined = first[axis]
    if not isinstance(joined, int):
        return
    if sizes.shape(reshape.outputs[0]) == (*first[:axis], len(parts) * joined, *first[axis + 1 :]):
        _take_over(reshape, stack, [part.inputs[0] for part in parts], axis=axis)


def _without_effect(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets what comes after a node that shapes a tensor as it was read that tensor itself."""
    shaped: dict[ir.Value, ir.Value] = {}  # what each Reshape is of, in however many steps
    for node in nodes(graph, *_SHAPING):
        before, result = node.inputs[0], node.outputs[0]
        first = shaped.get(before, before)
        if node.op_type != "Expand":
            shaped[result] = first
        shape = sizes.shape(result)
        same = next((value for value in (before, first) if shape is not None and sizes.shape(value) == shape), None)
        if same is not None and can_replace(result, same):
            replace(result, same)


_REARRANGING = ("Cast", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")  # they compute no size of their own


def take_zero_sizes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets the Reshapes of a graph, and of the graphs inside its nodes, accept sizes of zero.

    In the shape of an empty tensor, 0 means zero. A size of -1 whose value is known is written as a number. Three kinds
    of shapes stay: constants, shapes with another -1, and sizes of the reshaped tensor itself, for which a runtime may
    have a faster form.
    """
    for node in all_nodes(graph, "Reshape"):
        shape = node.inputs[1]
        if 0 in (sizes.shape(node.inputs[0]) or ()):
            _allow_zero(node)
        elif _integers(shape) is None and not _write_inferred(node, sizes):
            sources = {value: _integers(value) for value in _sources(shape)}
            least = min((value.min(initial=1) for value in sources.values() if value is not None), default=1)
            if least > 0 and any(each is None and value is not node.inputs[0] for value, each in sources.items()):
                _allow_zero(node)


def _allow_zero(node: Node) -> None:
    node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)


def _integers(value: ir.Value) -> Any | None:
    """Returns a constant that may be sizes: one integer, or a vector of them; None of any other value."""
    numbers = array(value)
    return numbers if numbers is not None and numbers.dtype in (np.int32, np.int64) and numbers.ndim < 2 else None


def _write_inferred(node: Node, sizes: KnownSizes) -> bool:
    """Writes the size that a Reshape infers, if it is a number: of nothing, runtimes infer none."""
    asked, found = sizes.vector(node.inputs[1]), sizes.shape(node.outputs[0])
    if asked is None or found is None or -1 not in asked or 0 in asked:
        return False
    place = asked.index(-1)
    size = found[place]
    if not isinstance(size, int) or size < 1:
        return False
    more = [size + 1 if axis == place else 0 for axis in range(len(asked))]
    set_inputs(node, [node.inputs[0], insert(node, "Add", [node.inputs[1], sizes_constant(node.graph, more)])])
    _allow_zero(node)
    return True


def _sources(shape: ir.Value) -> Iterator[ir.Value]:
    """Yields what a shape is made of: constants, tensors whose sizes these are, and what else is computed."""
    waiting = [shape]
    while waiting:
        value = waiting.pop()
        node = producer(value)
        if node is None or node.graph is not shape.graph:
            yield value
        elif node.op_type == "Concat":
            waiting += node.inputs
        elif node.op_type in _REARRANGING:
            waiting.append(node.inputs[0])
        else:
            yield node.inputs[0] if node.op_type == "Shape" else value


def write_shapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Makes constants of the shapes that Reshapes are given, if each size is a number or that of the axis before."""
    for node in nodes(graph, "Reshape"):
        if not node.attributes:
            _told(node, sizes)


def join_shapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Makes of transpositions and Reshapes that follow one another one or none.

    What turns axes of a single pixel alone is a Reshape too. A shape whose sizes are numbers, or those of the same axes
    before, becomes a constant that need not be made in every run.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its values.
    """
    for node in tuple(graph):
        before = producer(node.inputs[0]) if node.inputs else None
        if before is not None and _order(node) and _order(before):
            order = [_order(before)[axis] for axis in _order(node)]
            set_inputs(node, before.inputs)
            node.attributes["perm"] = ir.AttrInt64s("perm", order)
            if order == sorted(order) and can_replace(node.outputs[0], before.inputs[0]):
                stand_for(before.outputs[0], before.inputs[0])  # in another order of axes
                replace(node.outputs[0], before.inputs[0])
        elif before is not None and before.op_type in _RESHAPING and _is_reshaping(node, sizes):
            source, result = before.inputs[0], node.outputs[0]
            for operator, narrow, wide in (("Unsqueeze", source, result), ("Squeeze", result, source)):
                if (axes := _axes_of_one(sizes.shape(narrow), sizes.shape(wide))) is not None:
                    rewrite(node, operator, [source, sizes_constant(graph, axes)])
                    break
        elif node.op_type == "Reshape" and not node.attributes and (shape := _told(node, sizes)) is not None:
            _read_before(node, shape, sizes)


def _is_reshaping(node: Node, sizes: KnownSizes) -> bool:
    """Whether a node adds or drops axes of one entry, or moves them alone."""
    return node.op_type in ("Squeeze", "Unsqueeze") or _turns_nothing(node, sizes.shape(node.inputs[0]))


def _order(node: Node) -> list[int]:
    """Returns the axes of a transposition that names them; nothing of any other node."""
    return [*attribute(node, "perm", ())] if node.op_type == "Transpose" else []


def _told(node: Node, sizes: KnownSizes) -> Sizes | None:
    """Returns the shape that a Reshape is given, a constant now if each size is a number, that of the axis before, or
    inferred; None if it is not known."""
    before, after, asked = sizes.shape(node.inputs[0]), sizes.shape(node.outputs[0]), sizes.vector(node.inputs[1])
    if before is None or after is None or 0 in (*before, *after):
        return None
    for sizes_after in (after, asked or ()):
        shape = [0 if before[axis : axis + 1] == (size,) else size for axis, size in enumerate(sizes_after)]
        if len(shape) == len(after) and 0 not in sizes_after and all(isinstance(size, int) for size in shape):
            shape = [size if isinstance(size, int) else 0 for size in sizes_after]
            set_inputs(node, [node.inputs[0], sizes_constant(node.graph, shape)])
            return tuple(shape)
    return asked


def _axes_of_one(narrow: Sizes | None, wide: Sizes | None) -> list[int] | None:
    """Returns the axes of one entry that a shape has and another lacks; None if they differ otherwise or not at all."""
    if narrow is None or wide is None or len(narrow) >= len(wide):
        return None
    rest, axes = [*narrow], list[int]()
    for axis, size in enumerate(wide):
        if rest and rest[0] == size:
            rest.pop(0)
        elif size == 1:
            axes.append(axis)
        else:
            return None
    return None if rest else axes


def _read_before(node: Node, shape: Sizes, sizes: KnownSizes) -> None:
    """Lets a Reshape read what was reshaped before it, as far back as its shape tells the same sizes of that."""
    copied = [axis for axis, size in enumerate(shape) if size == 0]
    is_constant = all(isinstance(size, int) for size in shape)
    while is_constant and (before := producer(node.inputs[0])) is not None and before.graph is node.graph:
        ours, theirs = sizes.shape(node.inputs[0]), sizes.shape(before.inputs[0] if before.inputs else None)
        is_reshaped = before.op_type in _RESHAPING or _turns_nothing(before, theirs)
        if not is_reshaped or ours is None or theirs is None:
            return
        if any(ours[axis : axis + 1] != theirs[axis : axis + 1] for axis in copied):
            return
        set_inputs(node, [before.inputs[0], node.inputs[1]])


def _turns_nothing(transpose: Node, shape: Sizes | None) -> bool:
    """Whether a node is a transposition that moves axes of one pixel past the others, which stay in their order."""
    order = [axis for axis in _order(transpose) if shape is not None and shape[axis] != 1]
    return bool(shape and _order(transpose)) and order == sorted(order)


def share_sizes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets each Shape be of the first tensor that has these sizes, and what reads a vector of sizes read the first that
    is equal: masks, positions and shapes are then made once.

    Each layer of a decoder makes a causal mask from the length of its own input, which is the length of them all.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its values.
    """
    first: dict[Sizes, ir.Value] = {}
    made: dict[tuple[Sizes, int, int], ir.Value] = {}  # by the entries, the number of axes and the type
    node: Node
    for node in graph:
        shape = sizes.shape(node.inputs[0]) if node.op_type == "Shape" else None
        if shape is not None:
            set_inputs(node, [first.setdefault(shape, node.inputs[0])])
        if not node.outputs:
            continue
        result = node.outputs[0]
        vector, axes, kind = sizes.vector(result), sizes.shape(result), result.dtype
        if vector is not None and axes is not None and kind is not None and not result.is_graph_output():
            equal = made.setdefault((vector, len(axes), kind), result)
            if equal is not result:
                replace(result, equal)


_IMAGES = 4  # axes, at least


def ask_for_single_sizes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets each Shape of which nothing but one slice is read be of that slice, and one of images be of an input that
    has the same size if there is one.

    TensorFlow cuts a size out of all of them, which are cast before: three nodes, where two are enough. And ONNX
    Runtime reorders images whose size is asked for, as if their numbers were read.
    """
    given: dict[Any, tuple[ir.Value, int]] = {}
    for value in graph.inputs:
        for axis, size in enumerate(sizes.shape(value) or ()):
            given.setdefault(size, (value, axis))
    found = [(*each, *(_number(value) for value in each[-1].inputs[1:3])) for each in _sliced_shapes(graph)]
    asked = Counter(tensor for tensor, *_ in {(shape.inputs[0], *bounds) for shape, _, _, *bounds in found})
    for shape, last, cut, start, end in found:
        image = shape.inputs[0]
        if start is None or end is None or asked[image] != 1:
            continue
        known = sizes.shape(image) or ()
        if end == start + 1 and len(known) >= _IMAGES and known[start] in given:
            image, start = given[known[start]]
            end = start + 1
        result = copy(shape, [image], start=start, end=end)
        replace(cut.outputs[0], result if last is shape else copy(last, [result]))
        remove(*dict.fromkeys((cut, last, shape)))


def _number(value: ir.Value) -> int | None:
    """Returns the one entry of a constant vector of integers; None of any other value."""
    numbers = _integers(value)
    return int(numbers[0]) if numbers is not None and numbers.shape == (1,) else None


def _sliced_shapes(graph: ir.Graph) -> Iterator[tuple[Node, Node, Node]]:
    """Yields each Shape of which nothing but a slice is read, what is sliced, it or its Cast, and the Slice."""
    for cut in nodes(graph, "Slice"):
        last = producer(cut.inputs[0])
        shape = producer(last.inputs[0]) if last is not None and last.op_type == "Cast" else last
        # A fifth input are the steps of a slice.
        if last is None or shape is None or shape.op_type != "Shape" or shape.attributes or len(cut.inputs) == 5:
            continue
        if count_uses(shape.outputs[0]) == count_uses(last.outputs[0]) == 1:
            yield shape, last, cut
