"""The passes that remove and merge Reshapes.

For a Dense layer, TensorFlow's `tensordot` flattens the leading axes, multiplies, and splits them again; ONNX' MatMul
accepts any rank. An average over an image drops axes that a Reshape adds again; the reduction can keep them. Such a
Reshape hides the sizes from a runtime, which then cannot tell that two tensors have the same layout in memory. Rotary
encodings stack halves and merge the new axis with the next one; a Concat does the same.

A 0 in a shape copies a size of the reshaped tensor, unless `allowzero` is set.
"""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    attribute,
    can_replace,
    copy,
    count_uses,
    nodes,
    only_reader,
    order_of,
    producer,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.operator_kinds import ALIKE, REDUCTIONS
from keras_pe.export.onnx.finishing.operator_sizes import Sizes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze")
_SHAPING = ("Expand", *_RESHAPING)


def remove_needless_reshapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Removes the Reshapes around products, reductions and stacks, and the Reshapes without an effect."""
    for product in nodes(graph, "MatMul", "Gemm"):
        _multiply_unflattened(product, sizes)
    for operators, merge in ((REDUCTIONS, _keep_axes), (("Concat",), _concatenate_unstacked)):
        for node in nodes(graph, *operators):
            reshape = only_reader(node.outputs[0], "Reshape", "Unsqueeze")
            if reshape is not None and reshape.inputs[0] is node.outputs[0]:
                merge(node, reshape, sizes)
    _skip_no_ops(graph, sizes)


def _multiply_unflattened(product: Node, sizes: KnownSizes) -> None:
    """Removes the Reshapes that flatten the leading axes before a product and split them again after it.

    Between the product and the second Reshape, row-wise operators such as a bias and an activation may stand.
    """
    weight, flatten = sizes.shape(product.inputs[1]) or (), producer(product.inputs[0], "Reshape")
    is_plain = len(product.inputs) == 2 and not product.attributes  # a Gemm with attributes transposes or scales
    if not is_plain or len(weight) != 2 or flatten is None:
        return
    between, rows = list[Node](), product.outputs[0]
    reader = only_reader(rows)
    while reader is not None and reader.op_type != "Reshape" and _is_row_wise(reader, rows, sizes):
        between.append(reader)
        rows = reader.outputs[0]
        reader = only_reader(rows)
    source = flatten.inputs[0]
    wanted = (sizes.shape(source) or ())[:-1]
    shapes = [sizes.shape(node.outputs[0]) or () for node in (product, *between)]
    # A Reshape keeps the number of elements, so equal leading sizes imply that the last axis was not split.
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


def _is_row_wise(node: Node, rows: ir.Value, sizes: KnownSizes) -> bool:
    """Whether a node computes the same for each row, with numbers or a vector, for any number of axes of rows."""
    others = [sizes.shape(value) for value in node.inputs if value is not rows]
    is_elementwise = node.op_type in ALIKE
    return is_elementwise and all(shape is not None and len(shape) < 2 for shape in others)


def _keep_axes(reduction: Node, reshape: Node, sizes: KnownSizes) -> None:
    """Sets `keepdims` of a reduction if a Reshape adds the dropped axes again."""
    kept = sizes.with_axes_kept(reduction)
    if kept and kept == sizes.shape(reshape.outputs[0]) and attribute(reduction, "keepdims") == 0:
        _replace_both(reshape, reduction, reduction.inputs, keepdims=1)


def _replace_both(reshape: Node, node: Node, inputs: Sequence[ir.Value | None], **attributes: Any) -> None:
    """Replaces a node and the Reshape after it by the node with other inputs and attributes."""
    result = copy(node, inputs, **attributes)
    stand_for(node.outputs[0], result)
    replace(reshape.outputs[0], result)
    remove(reshape, node)


def _concatenate_unstacked(stack: Node, reshape: Node, sizes: KnownSizes) -> None:
    """Concatenates tensors along an axis, if they are stacked before that axis and a Reshape merges the two axes."""
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
        _replace_both(reshape, stack, [part.inputs[0] for part in parts], axis=axis)


def _skip_no_ops(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Replaces the result of Reshapes and Expands by the tensor before them if the shapes are equal."""
    shaped: dict[ir.Value, ir.Value] = {}  # the tensor before all Reshapes, by their result
    for node in nodes(graph, *_SHAPING):
        before, result = node.inputs[0], node.outputs[0]
        first = shaped.get(before, before)
        if node.op_type != "Expand":
            shaped[result] = first
        shape = sizes.shape(result)
        same = next((value for value in (before, first) if shape is not None and sizes.shape(value) == shape), None)
        if same is not None and can_replace(result, same):
            replace(result, same)


def write_shapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Replaces the shapes of Reshapes by constants, if each size is a number or the size of the same axis before."""
    for node in nodes(graph, "Reshape"):
        if not node.attributes:
            _write_shape(node, sizes)


def merge_reshapes(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Merges consecutive Transposes, and consecutive Reshapes, into one node or none.

    A Transpose that moves only axes of size 1 is a Reshape too. Shapes become constants where possible, see
    `write_shapes`.

    Args:
        graph: The graph, in topological order.
        sizes: The sizes of its values.
    """
    for each in tuple(graph):
        node = _merge_transposes(each, sizes) if order_of(each) else each
        before = producer(node.inputs[0]) if node.inputs else None
        if not node.outputs or not count_uses(node.outputs[0]):
            continue
        if node.op_type == "Reshape":
            if not node.attributes and (shape := _write_shape(node, sizes)) is not None:
                _read_before(node, shape, sizes)
        elif before is not None and _only_reshapes(before, sizes) and _only_reshapes(node, sizes):
            _reshape_once(node, before.inputs[0], sizes)


def _merge_transposes(node: Node, sizes: KnownSizes) -> Node:
    """Merges a Transpose with one before it, or removes both if they undo each other around an Unsqueeze.

    Returns:
        The last node.
    """
    before, order = producer(node.inputs[0]), order_of(node)
    if before is not None and order_of(before):
        order = [order_of(before)[axis] for axis in order]
        set_inputs(node, before.inputs)
        node.attributes["perm"] = ir.AttrInt64s("perm", order)
        if order == sorted(order) and can_replace(node.outputs[0], before.inputs[0]):
            stand_for(before.outputs[0], before.inputs[0])  # the order of axes differs
            replace(node.outputs[0], before.inputs[0])
    elif before is not None and before.op_type == "Unsqueeze" and (moved := order_of(producer(before.inputs[0]))):
        added, rest = sizes.axes(before), iter(moved)
        axes = [None if axis in added else next(rest) for axis in range(len(order))]
        kept = [axes[axis] for axis in order if axis not in added]
        if added and kept == sorted(moved):
            source = before.inputs[0].producer().inputs[0]
            for value in (before.inputs[0], before.outputs[0]):
                stand_for(value, source)
            places = [place for place, axis in enumerate(order) if axis in added]
            return rewrite(node, "Unsqueeze", [source, sizes_constant(node.graph, places)]).producer()
    return node


def _only_reshapes(node: Node, sizes: KnownSizes) -> bool:
    """Whether a node changes nothing but the shape."""
    return node.op_type in _RESHAPING or moves_no_data(node, sizes.shape(node.inputs[0] if node.inputs else None))


def _reshape_once(node: Node, source: ir.Value, sizes: KnownSizes) -> None:
    """Writes a node that returns a value in another shape as one Unsqueeze, Squeeze or Reshape, if possible."""
    before, after = sizes.shape(source), sizes.shape(node.outputs[0])
    for operator, narrow, wide in (("Unsqueeze", before, after), ("Squeeze", after, before)):
        if (axes := _axes_of_one(narrow, wide)) is not None:
            rewrite(node, operator, [source, sizes_constant(node.graph, axes)])
            return
    if before is not None and after is not None and (shape := _constant_shape(before, after)) is not None:
        rewrite(node, "Reshape", [source, sizes_constant(node.graph, shape)])


def _write_shape(node: Node, sizes: KnownSizes) -> Sizes | None:
    """Replaces the shape of a Reshape by a constant if possible, and returns the shape; None if it is unknown.

    The shape is constant if each size is a number, the size of the same axis before, or inferred.
    """
    before, after, requested = sizes.shape(node.inputs[0]), sizes.shape(node.outputs[0]), sizes.vector(node.inputs[1])
    if before is None or after is None or 0 in (*before, *after):
        return None
    for wanted in (after, requested or ()):
        if len(wanted) == len(after) and (shape := _constant_shape(before, wanted)) is not None:
            set_inputs(node, [node.inputs[0], sizes_constant(node.graph, shape)])
            return tuple(shape)
    return requested


def _constant_shape(before: Sizes, wanted: Sizes) -> list[int] | None:
    """Returns the shape of a Reshape with a 0 for each copied size; None if a size is unknown or zero."""
    shape = [size if isinstance(size, int) else 0 for size in wanted]
    copied = [before[axis : axis + 1] for axis, size in enumerate(shape) if size == 0]
    return shape if copied == [(size,) for size in wanted if not isinstance(size, int)] else None


def _axes_of_one(narrow: Sizes | None, wide: Sizes | None) -> list[int] | None:
    """Returns the axes of size 1 that only the wide shape has; None if the shapes differ otherwise, or are equal."""
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
    """Skips the Reshapes before a Reshape, as long as its constant shape stays valid."""
    copied = [axis for axis, size in enumerate(shape) if size == 0]
    is_constant = all(isinstance(size, int) for size in shape)
    while is_constant and (before := producer(node.inputs[0])) is not None and before.graph is node.graph:
        ours, theirs = sizes.shape(node.inputs[0]), sizes.shape(before.inputs[0] if before.inputs else None)
        if not _only_reshapes(before, sizes) or ours is None or theirs is None:
            return
        if any(ours[axis : axis + 1] != theirs[axis : axis + 1] for axis in copied):
            return
        set_inputs(node, [before.inputs[0], node.inputs[1]])


def moves_no_data(transpose: Node, shape: Sizes | None) -> bool:
    """Whether a node is a Transpose that moves only axes of size 1."""
    order = [axis for axis in order_of(transpose) if shape is not None and shape[axis] != 1]
    return bool(shape and order_of(transpose)) and order == sorted(order)
