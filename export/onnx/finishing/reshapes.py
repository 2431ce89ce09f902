"""Reshapes and the sizes that they ask for: what a file does without goes, and a size of zero is taken as it is meant.

For a Dense layer TensorFlow's `tensordot` flattens the leading dimensions, multiplies, and splits them again; ONNX's
MatMul takes any rank. An average over an image drops axes that a Reshape puts back; the reduction can keep them. Each
of them hides the sizes from a runtime, and with them that two tensors can be added as they lie in memory. Halves that
are stacked, and whose new axis is joined with the next, stand side by side: rotary positions turn channels so.

A 0 in a shape copies a size of what is reshaped, unless `allowzero` is set.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import bodies
from keras_pe.export.onnx.finishing.graph_edits import (
    GraphEditor,
    attribute,
    become,
    make_node,
    read_instead,
    refill,
    set_attribute,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import BROADCASTING, ELEMENTWISE, REDUCTIONS, KnownSizes, Sizes

_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze")
_SHAPING = ("Expand", *_RESHAPING)


def remove_needless_reshapes(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind.

    Returns:
        Which tensor is read now in place of each that was only a name of the same.
    """
    same = dict[str, str]()
    editor = GraphEditor(graph)
    for product in editor.nodes("MatMul", "Gemm"):
        same |= _without_flattening(editor, product, sizes)
    editor.apply()
    for operators, is_undone in ((REDUCTIONS, _keeps_axes), (("Concat",), _stands_side_by_side)):
        editor = GraphEditor(graph)
        for node in editor.nodes(*operators):
            reshape = editor.only_reader(node.output[0], "Reshape", "Unsqueeze")
            if reshape is not None and reshape.input[0] == node.output[0] and is_undone(editor, node, reshape, sizes):
                node.output[0] = reshape.output[0]
                editor.remove(reshape)
        editor.apply()
    return same | _without_effect(graph, sizes)


def _without_flattening(editor: GraphEditor, product: Any, sizes: KnownSizes) -> dict[str, str]:
    """Lets a product take what is flattened before it and split again behind it, if one undoes the other, and so what
    is done to each row between the two, as a bias and an activation are.

    Returns:
        What stands for the rows, which nobody reads any more.
    """
    weight, flatten = sizes.shape(product.input[1]) or (), editor.producer(product.input[0], "Reshape")
    is_plain = len(product.input) == 2 and not product.attribute  # a Gemm with attributes transposes or scales
    if not is_plain or len(weight) != 2 or flatten is None:
        return {}
    results, reader = [product.output[0]], editor.only_reader(product.output[0])
    while reader is not None and reader.op_type != "Reshape" and _is_of_rows(reader, results[-1], sizes):
        results.append(reader.output[0])
        reader = editor.only_reader(reader.output[0])
    source, rows = flatten.input[0], results[-1]
    wanted = (sizes.shape(source) or ())[:-1]
    widths = [shape[-1] for result in results if (shape := sizes.shape(result))]
    # As many elements come out as go in, so these leading sizes leave the flattened one for the last axis alone.
    if reader is None or reader.input[0] != rows or not wanted or len(widths) < len(results):
        return {}
    if sizes.vector(reader.input[1] if reader.op_type == "Reshape" else "") != (*wanted, widths[-1]):
        return {}
    become(product, "MatMul", [source, product.input[1]])
    for result, width in zip(results, widths, strict=True):
        sizes.tell(result, (*wanted, width))
    split = reader.output[0]
    editor.producers[rows].output[0] = split
    editor.remove(reader)
    return {rows: split} if len(results) > 1 else {}


def _is_of_rows(node: Any, rows: str, sizes: KnownSizes) -> bool:
    """Whether a node does the same to each row, of however many axes of them: to each number, or by a vector."""
    others = [sizes.shape(name) for name in node.input if name != rows]
    is_elementwise = node.op_type in (*BROADCASTING, *ELEMENTWISE)
    return is_elementwise and all(shape is not None and len(shape) < 2 for shape in others)


def _keeps_axes(editor: GraphEditor, reduction: Any, reshape: Any, sizes: KnownSizes) -> bool:
    """Lets a reduction keep the axes that it drops and a Reshape puts back."""
    kept = sizes.with_axes_kept(reduction)
    is_put_back = bool(kept) and kept == sizes.shape(reshape.output[0]) and attribute(reduction, "keepdims") == 0
    if is_put_back:
        set_attribute(reduction, "keepdims", 1)
    return is_put_back


def _stands_side_by_side(editor: GraphEditor, stack: Any, reshape: Any, sizes: KnownSizes) -> bool:
    """Joins tensors along the axis that their stack is joined with, without an axis of its own."""
    parts = [part for name in stack.input if (part := editor.producer(name, "Unsqueeze")) is not None]
    stacked, shapes = sizes.shape(stack.output[0]), [sizes.shape(part.input[0]) for part in parts]
    if len(parts) != len(stack.input) or stacked is None or (first := shapes[0]) is None or set(shapes) != {first}:
        return False
    axis = attribute(stack, "axis") % len(stacked)
    each = (*first[:axis], 1, *first[axis:])
    if axis == len(first) or any(sizes.shape(part.output[0]) != each for part in parts):
        return False
    joined = first[axis]
    if not isinstance(joined, int):
        return False
    if sizes.shape(reshape.output[0]) != (*first[:axis], len(parts) * joined, *first[axis + 1 :]):
        return False
    become(stack, "Concat", [part.input[0] for part in parts], axis=axis)
    return True


def _without_effect(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Lets what comes after a node that shapes a tensor as it was read that tensor itself."""
    same: dict[str, str] = {}
    shaped: dict[str, str] = {}  # what each Reshape is of, in however many steps
    editor = GraphEditor(graph)
    for node in editor.nodes(*_SHAPING):
        before = same.get(node.input[0], node.input[0])
        first = shaped.get(before, before)
        if node.op_type != "Expand":
            shaped[node.output[0]] = first
        shape = sizes.shape(node.output[0])
        as_it_was = [name for name in (before, first) if sizes.shape(name) == shape]
        if as_it_was and shape is not None and node.output[0] not in editor.outputs:
            same[node.output[0]] = as_it_was[0]
    editor.read_instead(same)
    return same


_REARRANGING = ("Cast", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")  # they compute no size of their own


def take_zero_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets the Reshapes of an `onnx.GraphProto` take a size of zero, in place.

    Where nothing is reshaped, a 0 is meant so, and a size to infer that is known is told. Elsewhere are left as they
    are: a constant shape, one with a size to infer, and one of sizes of the very tensor, which a runtime may know a
    faster form of.
    """
    editor = GraphEditor(graph)
    nodes: list[Any] = []
    for node in graph.node:
        for body in bodies(node):
            take_zero_sizes(body, sizes)
        nodes.append(node)
        if node.op_type != "Reshape":
            continue
        if 0 in (sizes.shape(node.input[0]) or ()):
            set_attribute(node, "allowzero", 1)
        elif _integers(editor, node.input[1]) is None and (told := _tell_inferred(editor, node, sizes)) is not None:
            nodes[-1:] = [told, node]
        elif _integers(editor, node.input[1]) is None:
            sources = {name: _integers(editor, name) for name in _sources(node.input[1], editor)}
            least = min((value.min(initial=1) for value in sources.values() if value is not None), default=1)
            if least > 0 and any(value is None and name != node.input[0] for name, value in sources.items()):
                set_attribute(node, "allowzero", 1)
    if len(nodes) > len(graph.node):
        refill(graph.node, nodes)


def _integers(editor: GraphEditor, name: str) -> Any | None:
    """Returns a constant that may be sizes: one integer, or a vector of them; None of any other tensor."""
    value = editor.value(name)
    return value if value is not None and value.dtype in (np.int32, np.int64) and value.ndim < 2 else None


def _tell_inferred(editor: GraphEditor, node: Any, sizes: KnownSizes) -> Any | None:
    """Writes the size that a Reshape infers, where it is a number: of nothing, runtimes infer none.

    Returns:
        The node that comes before it then; None if it is left as it was.
    """
    asked, found = sizes.vector(node.input[1]), sizes.shape(node.output[0])
    if asked is None or found is None or -1 not in asked or 0 in asked:
        return None
    place = asked.index(-1)
    size = found[place]
    if not isinstance(size, int) or size < 1:
        return None
    more = [size + 1 if axis == place else 0 for axis in range(len(asked))]
    read = [node.input[1], editor.add_sizes(f"{node.output[0]}/more", more)]
    told = make_node("Add", read, f"{node.output[0]}/told")
    node.input[1] = told.output[0]
    set_attribute(node, "allowzero", 1)
    return told


def _sources(shape: str, editor: GraphEditor) -> Iterator[str]:
    """Yields what a shape is made of: constants, tensors whose sizes these are, and what else is computed."""
    waiting = [shape]
    while waiting:
        name = waiting.pop()
        node = editor.producer(name)
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
    editor = GraphEditor(graph)
    same: dict[str, str] = {}
    turned: dict[str, str] = {}
    for node in graph.node:
        read_instead(node, same)
        before = editor.producer(node.input[0]) if node.input else None
        if before is not None and _order(node) and _order(before):
            order = [_order(before)[axis] for axis in _order(node)]
            become(node, "Transpose", before.input[:1], perm=order)
            if order == sorted(order) and node.output[0] not in editor.outputs:
                same[node.output[0]] = turned[before.output[0]] = node.input[0]
        elif node.op_type == "Reshape" and not node.attribute and (shape := _told(editor, node, sizes)) is not None:
            _read_before(editor, node, shape, sizes)
    editor.read_instead(same)
    return turned | same


def _order(node: Any) -> list[int]:
    """Returns the axes of a transposition that names them; nothing of any other node."""
    return [*attribute(node, "perm", ())] if node.op_type == "Transpose" else []


def _told(editor: GraphEditor, node: Any, sizes: KnownSizes) -> Sizes | None:
    """Returns the shape that a Reshape is given, a constant now where each size is a number, that of the axis before,
    or inferred; None where it is not known."""
    before, after, asked = sizes.shape(node.input[0]), sizes.shape(node.output[0]), sizes.vector(node.input[1])
    if before is None or after is None or 0 in (*before, *after):
        return None
    for sizes_after in (after, asked or ()):
        shape = [0 if before[axis : axis + 1] == (size,) else size for axis, size in enumerate(sizes_after)]
        if len(shape) == len(after) and 0 not in sizes_after and all(isinstance(size, int) for size in shape):
            shape = [size if isinstance(size, int) else 0 for size in sizes_after]
            node.input[1] = editor.add_sizes(f"{node.output[0]}/sizes", shape)
            return tuple(shape)
    return asked


def _read_before(editor: GraphEditor, node: Any, shape: Sizes, sizes: KnownSizes) -> None:
    """Lets a Reshape read what was reshaped before it, as far back as its shape tells the same sizes of that."""
    copied = [axis for axis, size in enumerate(shape) if size == 0]
    is_constant = all(isinstance(size, int) for size in shape)
    while is_constant and (before := editor.producer(node.input[0])) is not None:
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
    editor = GraphEditor(graph)
    for node in graph.node:
        shape = sizes.shape(node.input[0]) if node.op_type == "Shape" else None
        if shape is not None:
            node.input[0] = first.setdefault(shape, node.input[0])
        name = next(iter(node.output), "")
        vector, axes, kind = sizes.vector(name), sizes.shape(name), sizes.kind(name)
        if vector is not None and axes is not None and kind is not None and name not in editor.outputs:
            same[name] = made.setdefault((vector, len(axes), kind), name)
    editor.read_instead(same)


_IMAGES = 4  # axes, at least


def ask_for_single_sizes(graph: Any, sizes: KnownSizes) -> None:
    """Lets each Shape of which nothing but one slice is read, in place, be of that slice, and one of images be of an
    input that has the same size where there is one.

    TensorFlow cuts a size out of all of them, which are cast before: three nodes, where two are enough. And ONNX
    Runtime reorders images whose size is asked for, as if their numbers were read.
    """
    editor = GraphEditor(graph)
    given: dict[Any, tuple[str, int]] = {}
    for value in graph.input:
        for axis, size in enumerate(sizes.shape(value.name) or ()):
            given.setdefault(size, (value.name, axis))
    found = [(*nodes, *(_number(editor, name) for name in nodes[-1].input[1:3])) for nodes in _sliced_shapes(editor)]
    asked = Counter(tensor for tensor, *_ in {(shape.input[0], *bounds) for shape, _, _, *bounds in found})
    for shape, last, cut, start, end in found:
        if None not in (start, end) and asked[shape.input[0]] == 1:
            known = sizes.shape(shape.input[0]) or ()
            if end == start + 1 and len(known) >= _IMAGES and known[start] in given:
                shape.input[0], start = given[known[start]]
                end = start + 1
            set_attribute(shape, "start", start)
            set_attribute(shape, "end", end)
            last.output[0] = cut.output[0]
            editor.remove(cut)
    editor.apply()


def _number(editor: GraphEditor, name: str) -> int | None:
    """Returns the one entry of a constant vector of integers; None of any other tensor."""
    value = _integers(editor, name)
    return int(value[0]) if value is not None and value.shape == (1,) else None


def _sliced_shapes(editor: GraphEditor) -> Iterator[tuple[Any, Any, Any]]:
    """Yields each Shape of which nothing but a slice is read, what is sliced, it or its Cast, and the Slice."""
    for cut in editor.nodes("Slice"):
        last = editor.producer(cut.input[0])
        shape = editor.producer(last.input[0]) if last is not None and last.op_type == "Cast" else last
        # A fifth input are the steps of a slice.
        if last is None or shape is None or shape.op_type != "Shape" or shape.attribute or len(cut.input) == 5:
            continue
        if editor.uses(shape.output[0]) == editor.uses(last.output[0]) == 1:
            yield shape, last, cut
