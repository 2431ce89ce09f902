"""The folding of constants, and the removal of operators without an effect.

For example, the table of weights of each resizing is constant if the size of the image is known. TensorFlow folds the
operators that it traces; this module folds the operators that the handlers and tf2onnx write.
"""

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    array,
    attribute,
    can_replace,
    constant,
    count_uses,
    number,
    producer,
    read_instead,
    remove,
    replace,
)
from keras_pe.export.onnx.finishing.operator_kinds import BROADCASTING
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_MOST = 4096  # entries: a larger constant takes more space in a file than its operators
_NO_BOUND = 10**9  # the least number that tf2onnx writes for the end of an axis of any size
_EXACT = (  # operators without rounding, or with one rounding that all runtimes share
    *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor", "Gather"),
    *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or"),
    *("Range", "ReduceMax", "ReduceMin", "ReduceSum", "Reshape", "Round", "Slice", "Squeeze", "Sub", "Tile"),
    *("Transpose", "Unsqueeze", "Where"),
)
_MOVING = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")


def compute_constants(graph: ir.Graph, sizes: KnownSizes) -> bool:
    """Replaces the nodes that compute only with constants and known sizes by constants.

    A node that reads only stored floats stays, unless it only moves them. The floats may be the weights of a layer,
    which are recognized in any order and shape.

    Args:
        graph: The graph, in topological order, with the graphs inside its nodes.
        sizes: The sizes of its values.

    Returns:
        Whether there are new constants. More sizes may then be known.
    """
    found = set[ir.Value]()
    for node in tuple(graph.all_nodes()):
        (result, *others), read = node.outputs, [value for value in node.inputs if value is not None]
        if others or not read or result.is_graph_output():
            continue
        numbers = sizes.array(result)
        if numbers is None and node.op_type in _EXACT and not node.domain:
            inputs = {value: each for value in read if (each := array(value)) is not None}
            are_floats = all(each.dtype.kind == "f" for each in inputs.values())
            may_be_weights = are_floats and found.isdisjoint(inputs) and node.op_type not in _MOVING
            if inputs.keys() == set(read) and not may_be_weights:
                numbers = _compute(node, inputs, sizes.opset)
        is_moved = node.op_type in _MOVING and count_uses(read[0]) == 1
        if numbers is not None and (is_moved or np.size(numbers) <= _MOST):
            folded = constant(graph, numbers)
            found.add(folded)
            replace(result, folded)
            remove(node)
    return bool(found)


def _compute(node: Node, inputs: dict[ir.Value, Any], opset: int) -> Any | None:
    """Returns the result of a node; None if the node makes a large tensor of a small one."""
    from onnx.reference import ReferenceEvaluator

    first, *others = (inputs[value] for value in node.inputs if value is not None)
    last = others[-1] if others else first
    if node.op_type == "Range":
        count = (others[0] - first) / last
    elif node.op_type in ("ConstantOfShape", "Expand", "Tile"):
        count = math.prod(last.tolist()) * (first.size if node.op_type == "Tile" else 1)
    else:
        count = 0
    if count > _MOST:
        return None
    with np.errstate(all="ignore"):
        named = {str(value.name): numbers for value, numbers in inputs.items()}
        (result,) = ReferenceEvaluator(ir.to_proto(node), opsets={"": opset}).run(None, named)
    return result


def remove_no_ops(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Removes nodes that return their input, and Expands of a number before operators that broadcast."""
    for node in tuple(graph.all_nodes()):
        if node.op_type == "Cast":
            _merge_casts(node)
        elif node.op_type in BROADCASTING:
            _broadcast_numbers(graph, node, sizes)
        same, result = _same_value(node, sizes), node.outputs[0]
        if same is not None and can_replace(result, same):
            replace(result, same)


def _same_value(node: Node, sizes: KnownSizes) -> Any | None:
    """Returns the value that equals the result of a node, if the node has no effect or undoes the node before it."""
    first = node.inputs[0] if node.inputs else None
    if first is None or node.op_type == "Identity" or (node.op_type == "Concat" and len(node.inputs) == 1):
        return first
    if node.op_type == "Cast":
        return first if first.dtype == attribute(node, "to") else None
    if node.op_type == "Slice":
        axes, before = _reversed_axes(node), producer(first, "Slice")
        if axes == []:
            return first
        is_undone = bool(axes) and before is not None and axes == _reversed_axes(before)
        return before.inputs[0] if is_undone and before else None
    if node.op_type == "Resize":
        size = node.inputs[3] if len(node.inputs) == 4 and node.inputs[1] is None else None  # the second input crops
        wanted = sizes.vector(size)
        return first if wanted is not None and wanted == sizes.shape(first) else None
    if node.op_type not in ("Div", "Mul"):
        return None
    for tensor, factor in (node.inputs, *([node.inputs[::-1]] if node.op_type == "Mul" else [])):
        numbers, shape = array(factor), sizes.shape(tensor)
        is_one = (numbers == 1).all() if numbers is not None else _counts_a_causal_mask(factor, sizes)
        if is_one and shape is not None and shape == sizes.shape(node.outputs[0]):
            return tensor
    return None


def _counts_a_causal_mask(value: ir.Value | None, sizes: KnownSizes) -> bool:
    """Whether a value is 1 for each row of a causal mask that sees a column, so always: all rows see the first one."""
    cast = producer(value, "Cast")
    more = producer(cast.inputs[0], "Greater") if cast else None
    count = producer(more.inputs[0], "ReduceSum") if more and sizes.vector(more.inputs[1]) == (0,) else None
    mask = count.inputs[0] if count else None
    rank = len(sizes.shape(mask) or ())
    if count is None or len(count.inputs) < 2 or sizes.vector(count.inputs[1]) not in ((-1,), (rank - 1,)):
        return False
    while (node := producer(mask, "Cast", "Unsqueeze")) is not None:
        mask = node.inputs[0]
    compared = producer(mask, "LessOrEqual")
    if compared is None or rank < 2 or len(sizes.shape(mask) or ()) != 2:
        return False
    ((first, rows), (second, columns)) = ((producer(each, "Unsqueeze"), each) for each in compared.inputs)
    starts = [producer(each.inputs[0], "Range") for each in (first, second) if each]
    are_from_zero = len(starts) == 2 and all(each and sizes.vector(each.inputs[0]) == (0,) for each in starts)
    are_placed = (sizes.shape(rows) or ())[:1] == (1,) and (sizes.shape(columns) or ())[1:] == (1,)
    return are_from_zero and are_placed and (sizes.shape(count.inputs[0]) or ())[-2:] == sizes.shape(mask)


def _reversed_axes(cut: Node) -> list[int] | None:
    """Returns the axes that a Slice reverses; None if the Slice removes entries."""
    bounds = [array(value) for value in cut.inputs[1:]]
    if len(bounds) < 4 or any(each is None for each in bounds):
        return None
    reversed_axes = []
    for start, end, axis, step in zip(*bounds, strict=True):
        if step == -1 and (start == -1 or start >= _NO_BOUND) and end <= -_NO_BOUND:
            reversed_axes.append(int(axis))
        elif not (step == 1 and start == 0 and end >= _NO_BOUND):
            return None
    return sorted(reversed_axes)


def _merge_casts(cast: Node) -> None:
    """Skips a Cast before a Cast if it loses no digits. Between them, operators may move the numbers."""
    moves, before = list[Node](), producer(cast.inputs[0], "Cast", *_MOVING)
    while before is not None and before.op_type != "Cast" and count_uses(before.outputs[0]) == 1:
        moves.append(before)
        before = producer(before.inputs[0], "Cast", *_MOVING)
    source = None if before is None or before.op_type != "Cast" else before.inputs[0]
    if before is None or source is None or not source.dtype:
        return
    first, then = (ir.DataType(each).numpy() for each in (source.dtype, attribute(before, "to")))
    is_rounded = first.itemsize == 8 and first.kind != then.kind  # float64 rounds large integers of 64 bits
    if np.can_cast(first, then, "safe") and not is_rounded:
        read_instead(moves[-1] if moves else cast, before.outputs[0], source)
        for node in moves:
            node.outputs[0].type = source.type


def _broadcast_numbers(graph: ir.Graph, node: Node, sizes: KnownSizes) -> None:
    """Replaces inputs of one repeated number by the number, if another input has the shape of the result."""
    shape = sizes.shape(node.outputs[0])
    repeated = {value: found for value in node.inputs if (found := _repeated_number(value)) is not None}
    others = [value for value in node.inputs if value not in repeated]
    if repeated and shape is not None and any(sizes.shape(value) == shape for value in others):
        for value, found in repeated.items():
            read_instead(node, value, constant(graph, found))


def _repeated_number(value: ir.Value | None) -> Any | None:
    """Returns the number that an Expand or ConstantOfShape repeats; None for other values."""
    node = producer(value, "ConstantOfShape", "Expand")
    if node is None:
        return None
    if node.op_type == "Expand":
        return number(node.inputs[0])
    fill = attribute(node, "value")
    return np.float32(0) if fill is None else fill.numpy().reshape(())
