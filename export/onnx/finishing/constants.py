"""What a file need not compute: what numbers alone decide, and what changes nothing.

The size of an image that is known makes a table of weights of each resizing a constant, for one. TensorFlow folds what
it traces; what the handlers and tf2onnx write is left.
"""

import math
from typing import Any

import numpy as np

from keras_pe.export.onnx.finishing.graph_edits import GraphEditor, attribute, read_instead
from keras_pe.export.onnx.finishing.symbolic_sizes import BROADCASTING, KnownSizes

_MOST = 4096  # entries: more of them take more room in a file than their operators
_NO_BOUND = 10**9  # what tf2onnx writes for the end of an axis of any size, or more
_EXACT = (  # and what is rounded once, everywhere alike
    *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor", "Gather"),
    *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or"),
    *("Range", "ReduceMax", "ReduceMin", "ReduceSum", "Reshape", "Round", "Slice", "Squeeze", "Sub", "Tile"),
    *("Transpose", "Unsqueeze", "Where"),
)


def compute_constants(graph: Any, sizes: KnownSizes, opset: int) -> bool:
    """Makes constants of what constants and known sizes decide, in an `onnx.GraphProto` in place.

    What is made of floats alone that nobody has computed is left as it is: a layer may have them for its weights.

    Args:
        graph: The graph, whose nodes stand in the order in which they are computed.
        sizes: Those of its tensors.
        opset: Of ONNX's operators.

    Returns:
        Whether there are new ones, by which more sizes may be known.
    """
    editor = GraphEditor(graph)
    found: dict[str, Any] = {}
    for node in tuple(graph.node):
        (result, *others), read = node.output, [name for name in node.input if name]
        if others or not read or result in editor.outputs:
            continue
        value = sizes.array(result)
        if value is None and node.op_type in _EXACT and not node.domain:
            numbers = (found[name] if name in found else editor.value(name) for name in read)
            given = {name: each for name, each in zip(read, numbers, strict=True) if each is not None}
            may_be_weights = not found.keys() & given.keys() and all(each.dtype.kind == "f" for each in given.values())
            if given.keys() == set(read) and not may_be_weights:
                value = _computed(node, given, opset)
        if value is not None and np.size(value) <= _MOST:
            found[result] = np.asarray(value)
            editor.add_constant(result, found[result])
            editor.remove(node)
    editor.apply()
    return bool(found)


def _computed(node: Any, given: dict[str, Any], opset: int) -> Any | None:
    """Returns what a node returns; None where it would make too much of little."""
    from onnx.reference import ReferenceEvaluator

    first, *others = (given[name] for name in node.input if name)
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
        (result,) = ReferenceEvaluator(node, opsets={"": opset}).run(None, given)
    return result


def leave_out_needless(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Takes out of an `onnx.GraphProto`, in place, what returns what it is given, and lets operators spread a number
    themselves that was spread before. Nodes that nothing needs any more are left behind.

    Returns:
        Which tensor stands for each that is gone.
    """
    editor = GraphEditor(graph)
    same: dict[str, str] = {}
    for node in graph.node:
        read_instead(node, same)
        if node.op_type == "Cast":
            _cast_once(editor, node, sizes)
        elif node.op_type in BROADCASTING:
            _spread_inside(editor, node, sizes)
        kept = _unchanged(editor, node, sizes)
        if kept is not None and node.output[0] not in editor.outputs:
            same[node.output[0]] = kept
    editor.read_instead(same)
    return same


def _unchanged(editor: GraphEditor, node: Any, sizes: KnownSizes) -> str | None:
    """Returns what a node returns as it is, if it changes nothing, or only what the node before it has changed."""
    if node.op_type == "Cast":
        return str(node.input[0]) if sizes.kind(node.input[0]) == attribute(node, "to") else None
    if node.op_type == "Slice":
        axes, before = _reversed_axes(editor, node), editor.producer(node.input[0], "Slice")
        if axes == []:
            return str(node.input[0])
        return str(before.input[0]) if axes and before and axes == _reversed_axes(editor, before) else None
    if node.op_type not in ("Div", "Mul"):
        return None
    for tensor, factor in (node.input, *([node.input[::-1]] if node.op_type == "Mul" else [])):
        number, shape = editor.value(factor), sizes.shape(tensor)
        if number is not None and (number == 1).all() and shape is not None and shape == sizes.shape(node.output[0]):
            return str(tensor)
    return None


def _reversed_axes(editor: GraphEditor, cut: Any) -> list[int] | None:
    """Returns the axes that a Slice reverses, if it takes all that there is; None where it leaves something out."""
    bounds = [editor.value(name) for name in cut.input[1:]]
    if len(bounds) < 4 or any(each is None for each in bounds):
        return None
    reversed_axes = []
    for start, end, axis, step in zip(*bounds, strict=True):
        if step == -1 and (start == -1 or start >= _NO_BOUND) and end <= -_NO_BOUND:
            reversed_axes.append(int(axis))
        elif not (step == 1 and start == 0 and end >= _NO_BOUND):
            return None
    return sorted(reversed_axes)


def _cast_once(editor: GraphEditor, cast: Any, sizes: KnownSizes) -> None:
    """Lets a Cast read what was cast before it, where that has lost nothing."""
    from onnx import helper

    before = editor.producer(cast.input[0], "Cast")
    kind = None if before is None else sizes.kind(before.input[0])
    if before is None or not kind:
        return
    first, then = (helper.tensor_dtype_to_np_dtype(each) for each in (kind, attribute(before, "to")))
    is_rounded = first.itemsize == 8 and first.kind != then.kind  # an integer of 64 bits by a float of as many
    if np.can_cast(first, then, "safe") and not is_rounded:
        cast.input[0] = before.input[0]


def _spread_inside(editor: GraphEditor, node: Any, sizes: KnownSizes) -> None:
    """Lets a node read a number instead of a tensor of that number, where another that it reads has the sizes."""
    shape = sizes.shape(node.output[0])
    spread = {name: number for name in node.input if (number := _number_spread(editor, name)) is not None}
    others = [name for name in node.input if name not in spread]
    if spread and shape is not None and any(sizes.shape(name) == shape for name in others):
        read_instead(node, {name: editor.add_constant(f"{name}/number", x) for name, x in spread.items()})


def _number_spread(editor: GraphEditor, tensor: str) -> Any | None:
    """Returns the number that a tensor has everywhere, if it is made of it; None of any other."""
    from onnx import numpy_helper

    made = editor.producer(tensor, "ConstantOfShape", "Expand")
    if made is None:
        return None
    if made.op_type == "Expand":
        number = editor.value(made.input[0])
    else:
        filled = attribute(made, "value")
        number = np.float32(0) if filled is None else numpy_helper.to_array(filled)
    return number.reshape(()) if number is not None and number.size == 1 else None
