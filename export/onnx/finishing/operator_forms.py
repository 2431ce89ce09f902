"""Writes operators in the form that runtimes know, or compute rightly: one for several, or in their own order.

A sum behind a product is one layer everywhere, a division by a root mean square one operator of ONNX Runtime's, an
average over an image one of ONNX's, and an index may be negative in both. Nodes that nothing needs any more are left
behind.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import bodies
from keras_pe.export.onnx.finishing.graph_edits import (
    GraphEditor,
    attribute,
    become,
    make_node,
    order_needed,
    read_instead,
    refill,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def add_biases_before_splits(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Adds the bias of a projection, in an `onnx.GraphProto` in place, before its result is split into heads.

    Keras splits first, so that the bias has the heads' shape. It is stored flat, see `store_as_read`.

    Args:
        graph: The graph, whose weights are no initializers yet.
        shapes: The shape of each weight, by its name.
    """
    editor = GraphEditor(graph)

    def target(reshape: Any) -> Any | None:
        """Returns what a Reshape is told, if that is certain."""
        sizes = editor.value(reshape.input[1])
        return None if sizes is None or sizes.ndim != 1 else sizes.tolist()

    def stored_shape(tensor: str) -> list[int]:
        """Returns the shape of a weight, or what it is reshaped to; nothing for what is computed."""
        made = editor.producer(tensor, "Reshape")
        sizes: list[int] | None = None if made is None else target(made)
        if made is None or sizes is None:
            return list(shapes.get(tensor, ()))
        size = math.prod(stored_shape(made.input[0]))
        return [size // -math.prod(sizes) if each == -1 else each for each in sizes] if 0 not in sizes else sizes

    for addition in editor.nodes("Add"):
        bias = next((name for name in addition.input if len(shapes.get(name, ())) > 1), None)
        split = next((editor.producers[name] for name in addition.input if name in editor.producers), None)
        if bias is None or split is None or split.op_type != "Reshape":
            continue
        heads, product = target(split), editor.producer(split.input[0], "MatMul")
        if heads is None or product is None:
            continue
        block = list(shapes[bias])
        width = math.prod(block)
        # Each row of the product is then a block of what is split, and only this sum reads either of them.
        is_row = stored_shape(product.input[1])[-1:] == [width] and heads[-len(block) :] == block and width > 0
        if not is_row or max(map(editor.uses, (product.output[0], split.output[0], bias))) > 1:
            continue
        shape, result = split.input[1], addition.output[0]
        flat, summed = f"{bias}/flat", f"{result}/flat"
        graph.node.insert(0, make_node("Reshape", [bias, editor.add_constant(f"{bias}/size", [width])], flat))
        become(split, "Add", [product.output[0], flat], summed)
        become(addition, "Reshape", [summed, shape])


_ROOT_BACKWARDS = ("Reciprocal", "Sqrt", "Add", "ReduceMean", "Mul")  # to the squares, each read once


def spell_root_mean_squares(graph: Any, sizes: KnownSizes) -> None:
    """Divides by a root mean square, in an `onnx.GraphProto` in place, with a power and a division.

    Libraries normalize in operations of their own, `x * rsqrt(mean(x * x) + epsilon) * scale`. Keras' own normalization
    is written so where it is traced.
    """
    editor = GraphEditor(graph)

    def is_weighted(tensor: str) -> bool:
        """Whether nothing but a product with a vector reads a tensor."""
        reader = editor.only_reader(tensor, "Mul")
        others = [] if reader is None else [name for name in reader.input if name != tensor]
        return any(len(sizes.shape(name) or ()) == 1 for name in others)

    for scaling in [node for node in editor.nodes("Mul") if is_weighted(node.output[0])]:
        for x, inverse in (scaling.input, scaling.input[::-1]):
            steps, shape = _steps_before(editor, inverse, _ROOT_BACKWARDS), sizes.shape(x)
            if not steps or list(steps[-1].input) != [x, x] or shape is None:
                continue
            _, root, added, mean, squares = steps
            epsilon = next((editor.value(name) for name in added.input if name in editor.constants), None)
            if epsilon is None or sizes.shape(mean.output[0]) != (*shape[:-1], 1):
                continue
            two = editor.add_constant(f"{squares.output[0]}/two", np.array(2, epsilon.dtype))
            become(squares, "Pow", [x, two])
            become(scaling, "Div", [x, root.output[0]])
            break


def _steps_before(editor: GraphEditor, tensor: str, operators: Sequence[str]) -> list[Any]:
    """Returns the operators that compute a tensor, the last first, each of which one alone reads; else nothing."""
    steps = []
    for operator in operators:
        node = editor.producer(tensor, operator)
        if node is None or editor.uses(tensor) != 1:
            return []
        steps.append(node)
        tensor = next((name for name in node.input if name not in editor.constants), "")
    return steps


def name_root_mean_squares(graph: Any, sizes: KnownSizes) -> None:
    """Divides by a root mean square and scales, in an `onnx.GraphProto` in place, by the operator for it."""
    order_needed(graph)  # what was left behind would be one more reader
    editor = GraphEditor(graph)
    for scaling in editor.nodes("Mul"):
        for quotient, scale in (scaling.input, scaling.input[::-1]):
            last = sizes.shape(scale)
            found = _over_root_mean_square(editor, sizes, quotient, last) if last else None
            if last and found:
                x, epsilon = found
                become(scaling, "RMSNormalization", [x, scale], axis=-len(last), epsilon=epsilon)
                break


def _over_root_mean_square(
    editor: GraphEditor, sizes: KnownSizes, quotient: str, last: Sequence[Any]
) -> tuple[str, float] | None:
    """Returns what is divided by the root mean square of its axes of these last sizes, and what is added to the mean.

    None where a quotient is another, or others read it or what it is made of.
    """
    from onnx import TensorProto

    division = editor.producer(quotient, "Div")
    if division is None or editor.uses(quotient) != 1:
        return None
    x, root = division.input
    steps, shape, count = _steps_before(editor, root, ("Sqrt", "Add", "ReduceMean", "Pow")), sizes.shape(x), len(last)
    if not steps or shape is None or sizes.kind(x) != TensorProto.FLOAT or steps[-1].input[0] != x:
        return None
    _, added, mean, squares = steps
    epsilon, power = (
        next((editor.value(name) for name in node.input if name in editor.constants), None) for node in (added, squares)
    )
    if shape[-count:] != tuple(last) or sizes.shape(mean.output[0]) != (*shape[:-count], *(1,) * count):
        return None
    return None if epsilon is None or epsilon.size != 1 or power is None or power != 2 else (x, float(epsilon.item()))


_MOST_PIXELS = 4096  # at 56 x 56 its largest error is 2.4 times Keras', at 224 x 224 3.4 times


def name_global_averages(graph: Any, sizes: KnownSizes) -> None:
    """Averages an image, in an `onnx.GraphProto` in place, by the operator for it: a convolution's own layout stays.

    ONNX Runtime's adds plainly, and of many pixels it loses more digits than Keras: an average of these stays a
    reduction.
    """
    from onnx import TensorProto

    for node in GraphEditor(graph).nodes("ReduceMean"):
        shape = sizes.shape(node.input[0]) or ()
        height, width = shape[2:] if len(shape) == 4 else (0, 0)
        is_whole = sizes.shape(node.output[0]) == (*shape[:2], 1, 1) and sizes.kind(node.input[0]) == TensorProto.FLOAT
        if is_whole and isinstance(height, int) and isinstance(width, int) and 1 < height * width <= _MOST_PIXELS:
            become(node, "GlobalAveragePool", node.input[:1])


def bound_once(graph: Any, sizes: KnownSizes) -> None:
    """Bounds from both sides, in an `onnx.GraphProto` in place, by one operator; where both bounds are one number, what
    is bounded is that number."""
    from onnx import TensorProto

    editor = GraphEditor(graph)

    def bound(node: Any) -> tuple[str, Any]:
        """Returns what a node bounds and by which number, nothing where it is no number."""
        for tensor, other in (node.input, node.input[::-1]) if len(node.input) == 2 else ():
            number = editor.value(other)
            if number is not None and number.size == 1:
                return tensor, number.reshape(())
        return "", None

    for node in editor.nodes("Max", "Min"):
        inner, last = bound(node)
        before = editor.producer(inner, "Min" if node.op_type == "Max" else "Max")
        tensor, first = ("", None) if before is None else bound(before)
        if first is None:
            continue
        least, most = (last, first) if node.op_type == "Max" else (first, last)
        result = node.output[0]
        if least == most and least.dtype.kind == "i" and sizes.shape(result) == ():
            become(node, "Identity", [editor.add_constant(f"{result}/number", least)])
        elif least <= most and sizes.kind(tensor) == TensorProto.FLOAT:
            bounds = [editor.add_constant(f"{result}/{name}", x) for name, x in (("least", least), ("most", most))]
            become(node, "Clip", [tensor, *bounds])


def leave_negative_indices(graph: Any, sizes: KnownSizes) -> None:
    """Leaves negative indices to the Gathers of an `onnx.GraphProto`, in place: Keras adds the size to them itself."""
    editor = GraphEditor(graph)

    def inputs(tensor: str, operator: str) -> list[str]:
        node = editor.producer(tensor, operator)
        return ["", "", ""] if node is None else list(node.input)

    for gather in editor.nodes("Gather"):
        condition, moved, index = inputs(gather.input[1], "Where")
        asked, zero, *_ = inputs(condition, "Less")
        first, size, *_ = inputs(moved, "Add")
        is_asked = index in (asked, *inputs(asked, "Cast")[:1]) and sizes.vector(zero) == (0,)
        shape, axis = sizes.shape(gather.input[0]), attribute(gather, "axis", 0)
        if index and is_asked and first == index and shape is not None and sizes.vector(size) == (shape[axis],):
            gather.input[1] = index


_PREPARING = ("Add", "Cast", "Clip", "Div", "Max", "Min", "Mul", "Sub")


def turn_images_first(graph: Any) -> None:
    """Turns an image to ONNX's order of axes, in an `onnx.GraphProto` in place, before it is prepared instead of after.

    A number for each channel then meets whole rows of pixels, and not three numbers at a time. tf2onnx turns an image
    where a convolution reads it, behind a `Rescaling` or a `Normalization`. The nodes no longer stand in the order in
    which they are computed.
    """
    editor, inputs = GraphEditor(graph), {value.name for value in graph.input}
    for turn in editor.nodes("Transpose"):
        result, turned, order = turn.input[0], turn.output[0], attribute(turn, "perm")
        steps, tensor = [], result
        while tensor not in inputs and editor.uses(tensor) == 1:
            node = editor.producer(tensor, *_PREPARING)
            operands = [] if node is None else [name for name in node.input if name and name not in editor.constants]
            if node is None or len(operands) != 1:
                break
            steps.append(node)
            tensor = operands[0]
        if not steps or tensor not in inputs or turned in editor.outputs:
            continue
        editor.read_instead({turned: result})
        for step in steps:
            constants = [name for name in step.input if name in editor.constants]
            read_instead(step, {name: editor.add_turned(f"{name}/turned", name, order) for name in constants})
        read_instead(steps[-1], {tensor: turned})
        turn.input[0] = tensor


_WITH_WINDOWS = ("AveragePool", "Conv", "MaxPool")


def keep_sparse_windows(graph: Any, sizes: KnownSizes) -> None:
    """Cuts the pixels that no window sees off the images of an `onnx.GraphProto`, in place.

    Where the stride is larger than the window, SAME needs no padding, and less than none where pixels are left over at
    the end. TensorFlow takes that for none, ONNX Runtime cuts half of it off the beginning.
    """
    editor, nodes = GraphEditor(graph), []
    for node in graph.node:
        for body in bodies(node):
            keep_sparse_windows(body, sizes)
        if node.op_type in _WITH_WINDOWS and attribute(node, "auto_pad") == b"SAME_UPPER":
            kernel = attribute(node, "kernel_shape")
            strides, gaps = (attribute(node, name) or [1] * len(kernel) for name in ("strides", "dilations"))
            reach = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
            image = (sizes.shape(node.input[0]) or ())[2:] or [None] * len(reach)
            # Of one pixel, as the rows of a line have, nothing is left over.
            if any(stride > size and pixels != 1 for stride, size, pixels in zip(strides, reach, image, strict=True)):
                nodes += _cut(editor, node, strides, reach)
        nodes.append(node)
    refill(graph.node, nodes)


def _cut(editor: GraphEditor, node: Any, strides: list[int], reach: list[int]) -> list[Any]:
    """Returns the nodes that cut the image off behind the last window; it stays where that reaches beyond it."""

    def constant(name: str, sizes: Any) -> str:
        return editor.add_sizes(f"{node.name}_{name}", sizes)

    def emit(operator: str, *inputs: str, **attributes: Any) -> str:
        emitted.append(make_node(operator, inputs, f"{node.name}_{operator}", **attributes))
        return str(emitted[-1].output[0])

    emitted: list[Any] = []
    stride, image = constant("strides", strides), node.input[0]
    last = emit("Sub", emit("Shape", image, start=2), constant("one", [1]))
    start = emit("Mul", emit("Div", last, stride), stride)  # of the last window
    end = emit("Add", start, constant("reach", reach))
    axes = np.arange(len(strides)) + 2
    node.input[0] = emit("Slice", image, constant("zeros", np.zeros_like(axes)), end, constant("axes", axes))
    return emitted


_FIRST_WITH_AXES = 18  # the opset


def keep_pads(graph: Any, opset: int) -> None:
    """Rewrites the Pads before a MaxPool of an `onnx.GraphProto` in place, which ONNX Runtime 1.31 may change.

    A MaxPool pads with minus infinity, and Pad_Fusion takes zeros that are padded before it for the pool's own padding:
    the result is another one wherever a window at the edge holds negative numbers alone, in every ResNetV2. It leaves a
    Pad alone that names its axes, or pads with anything but zero.
    """
    editor = GraphEditor(graph)
    for node in graph.node:
        for body in bodies(node):
            keep_pads(body, opset)
        pad = editor.producer(node.input[0], "Pad") if node.op_type == "MaxPool" else None
        if pad is None or len(pad.input) > 3 or attribute(pad, "mode", b"constant") != b"constant":
            continue
        pads, *filled = map(editor.value, pad.input[1:])
        if pads is None:
            continue
        if opset >= _FIRST_WITH_AXES:
            pad.input.extend([""] * (3 - len(pad.input)))
            pad.input.append(editor.add_constant(f"{pad.name}_axes", np.arange(len(pads) // 2)))
        elif all(value is not None and value.dtype == np.float32 and not value.any() for value in filled):
            # The smallest number there is, which no sum and no product with it can tell from zero.
            smallest = editor.add_constant(f"{pad.name}_value", np.nextafter(np.float32(0), np.float32(1)))
            pad.input[2:] = [smallest]
