"""What a file need not compute: what numbers alone decide, and what changes nothing.

The size of an image that is known makes a table of weights of each resizing a constant, for one. TensorFlow folds what
it traces; what the handlers and tf2onnx write is left.
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
    producer,
    read_instead,
    remove,
    replace,
    set_inputs,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import BROADCASTING, KnownSizes

_MOST = 4096  # entries: more of them take more room in a file than their operators
_NO_BOUND = 10**9  # what tf2onnx writes for the end of an axis of any size, or more
_EXACT = (  # and what is rounded once, everywhere alike
    *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor", "Gather"),
    *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or"),
    *("Range", "ReduceMax", "ReduceMin", "ReduceSum", "Reshape", "Round", "Slice", "Squeeze", "Sub", "Tile"),
    *("Transpose", "Unsqueeze", "Where"),
)
_MOVING = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")


def compute_constants(graph: ir.Graph, sizes: KnownSizes, opset: int) -> bool:
    """Makes constants of what constants and known sizes decide.

    What is computed of floats alone that nobody has computed is left as it is: a layer may have them for its weights,
    which are known in any order and shape.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its values.
        opset: Of ONNX's operators.

    Returns:
        Whether there are new ones, by which more sizes may be known.
    """
    found = set[ir.Value]()
    for node in tuple(graph):
        (result, *others), read = node.outputs, [value for value in node.inputs if value is not None]
        if others or not read or result.is_graph_output():
            continue
        numbers = sizes.array(result)
        if numbers is None and node.op_type in _EXACT and not node.domain:
            given = {value: each for value in read if (each := array(value)) is not None}
            are_floats = all(each.dtype.kind == "f" for each in given.values())
            may_be_weights = are_floats and found.isdisjoint(given) and node.op_type not in _MOVING
            if given.keys() == set(read) and not may_be_weights:
                numbers = _computed(node, given, opset)
        is_moved = node.op_type in _MOVING and count_uses(read[0]) == 1
        if numbers is not None and (is_moved or np.size(numbers) <= _MOST):
            made = constant(graph, numbers)
            found.add(made)
            replace(result, made)
            remove(node)
    return bool(found)


def _computed(node: Node, given: dict[ir.Value, Any], opset: int) -> Any | None:
    """Returns what a node returns; None if it would make too much of little."""
    from onnx.reference import ReferenceEvaluator

    first, *others = (given[value] for value in node.inputs if value is not None)
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
        named = {str(value.name): numbers for value, numbers in given.items()}
        (result,) = ReferenceEvaluator(ir.to_proto(node), opsets={"": opset}).run(None, named)
    return result


def leave_out_needless(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Takes out what returns what it is given, and lets operators spread a number themselves that was spread before."""
    for node in graph:
        if node.op_type == "Cast":
            _cast_once(node)
        elif node.op_type in BROADCASTING:
            _spread_inside(graph, node, sizes)
        kept, result = _unchanged(node, sizes), node.outputs[0]
        if kept is not None and can_replace(result, kept):
            replace(result, kept)


def _unchanged(node: Node, sizes: KnownSizes) -> Any | None:
    """Returns what a node returns as it is, if it changes nothing, or only what the node before it has changed."""
    first = node.inputs[0] if node.inputs else None
    if first is None or node.op_type == "Identity":
        return first
    if node.op_type == "Cast":
        return first if first.dtype == attribute(node, "to") else None
    if node.op_type == "Slice":
        axes, before = _reversed_axes(node), producer(first, "Slice")
        if axes == []:
            return first
        is_undone = bool(axes) and before is not None and axes == _reversed_axes(before)
        return before.inputs[0] if is_undone and before else None
    if node.op_type not in ("Div", "Mul"):
        return None
    for tensor, factor in (node.inputs, *([node.inputs[::-1]] if node.op_type == "Mul" else [])):
        number, shape = array(factor), sizes.shape(tensor)
        is_one = (number == 1).all() if number is not None else _counts_a_causal_mask(factor, sizes)
        if is_one and shape is not None and shape == sizes.shape(node.outputs[0]):
            return tensor
    return None


def _counts_a_causal_mask(value: ir.Value | None, sizes: KnownSizes) -> bool:
    """Whether a value is 1 for each row of a causal mask that sees something: each row sees the first column."""
    is_something = producer(value, "Cast")
    more = producer(is_something.inputs[0], "Greater") if is_something else None
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
    ((first, of_rows), (second, of_columns)) = ((producer(each, "Unsqueeze"), each) for each in compared.inputs)
    starts = [producer(each.inputs[0], "Range") for each in (first, second) if each]
    are_from_zero = len(starts) == 2 and all(each and sizes.vector(each.inputs[0]) == (0,) for each in starts)
    are_placed = (sizes.shape(of_rows) or ())[:1] == (1,) and (sizes.shape(of_columns) or ())[1:] == (1,)
    return are_from_zero and are_placed and (sizes.shape(count.inputs[0]) or ())[-2:] == sizes.shape(mask)


def _reversed_axes(cut: Node) -> list[int] | None:
    """Returns the axes that a Slice reverses, if it takes all that there is; None if it leaves something out."""
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


def _cast_once(cast: Node) -> None:
    """Lets a Cast read what was cast before it, if that has lost nothing."""
    before = producer(cast.inputs[0], "Cast")
    source = None if before is None else before.inputs[0]
    if before is None or source is None or not source.dtype:
        return
    first, then = (ir.DataType(each).numpy() for each in (source.dtype, attribute(before, "to")))
    is_rounded = first.itemsize == 8 and first.kind != then.kind  # an integer of 64 bits by a float of as many
    if np.can_cast(first, then, "safe") and not is_rounded:
        set_inputs(cast, [source])


def _spread_inside(graph: ir.Graph, node: Node, sizes: KnownSizes) -> None:
    """Lets a node read a number instead of a tensor of that number, if another that it reads has the sizes."""
    shape = sizes.shape(node.outputs[0])
    spread = {value: number for value in node.inputs if (number := _number_spread(value)) is not None}
    others = [value for value in node.inputs if value not in spread]
    if spread and shape is not None and any(sizes.shape(value) == shape for value in others):
        for value, number in spread.items():
            read_instead(node, value, constant(graph, number))


def _number_spread(value: ir.Value | None) -> Any | None:
    """Returns the number that a value has everywhere, if it is made of it; None of any other."""
    made = producer(value, "ConstantOfShape", "Expand")
    if made is None:
        return None
    if made.op_type == "Expand":
        number = array(made.inputs[0])
    else:
        filled = attribute(made, "value")
        number = np.float32(0) if filled is None else filled.numpy()
    return number.reshape(()) if number is not None and number.size == 1 else None
