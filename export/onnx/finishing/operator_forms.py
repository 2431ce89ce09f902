"""Writes operators in the form that runtimes know, or compute rightly: one for several, or in their own order.

A sum behind a product is one layer everywhere, a division by a root mean square one operator of ONNX Runtime's, an
average over an image one of ONNX's, and an index may be negative in both.
"""

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    WEIGHT,
    Node,
    all_nodes,
    array,
    attribute,
    constant,
    copy,
    count_uses,
    insert,
    nodes,
    producer,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
    stand_for,
    turned_constant,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def add_biases_before_splits(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Adds the bias of a projection before its result is split into heads.

    Keras splits first, so that the bias has the heads' shape. It is stored flat, see `store_as_read`.
    """

    def asked(reshape: Node) -> list[Any] | None:
        """Returns what a Reshape is told, if that is certain."""
        found = sizes.vector(reshape.inputs[1])
        return None if found is None else [*found]

    def stored_shape(value: ir.Value | None) -> list[int]:
        """Returns the shape of a weight, or what it is reshaped to; nothing for what is computed."""
        made = producer(value, "Reshape")
        shape = None if made is None else asked(made)
        if made is None or shape is None:
            return [*value.meta[WEIGHT].shape] if value is not None and WEIGHT in value.meta else []
        size = math.prod(stored_shape(made.inputs[0]))
        return [size // -math.prod(shape) if each == -1 else each for each in shape] if 0 not in shape else shape

    for addition in nodes(graph, "Add"):
        bias = next((x for x in addition.inputs if WEIGHT in x.meta and len(x.shape) > 1), None)
        split = next((node for value in addition.inputs if (node := producer(value)) is not None), None)
        if bias is None or split is None or split.op_type != "Reshape":
            continue
        heads, product = asked(split), producer(split.inputs[0], "MatMul")
        if heads is None or product is None:
            continue
        block = [*bias.meta[WEIGHT].shape]
        width = math.prod(block)
        # Each row of the product is then a block of what is split, and only this sum reads either of them.
        is_row = stored_shape(product.inputs[1])[-1:] == [width] and heads[-len(block) :] == block and width > 0
        if not is_row or max(map(count_uses, (product.outputs[0], split.outputs[0], bias))) > 1:
            continue
        flat = insert(addition, "Reshape", [bias, sizes_constant(graph, [width])])
        summed = insert(addition, "Add", [product.outputs[0], flat])
        rewrite(addition, "Reshape", [summed, split.inputs[1]])


def name_root_mean_squares(graph: ir.Graph, sizes: KnownSizes, has_operator: bool) -> None:
    """Divides by a root mean square and scales by the operator for it, or by a power and a division.

    Libraries normalize in operations of their own, `x * rsqrt(mean(x * x) + epsilon) * scale`. ONNX Runtime knows the
    power and the division, as which Keras' own normalization is traced.

    Args:
        graph: The graph.
        sizes: Those of its values.
        has_operator: Whether the operator set has the operator.
    """
    for scaling in nodes(graph, "Mul"):
        for quotient, scale in (scaling.inputs, scaling.inputs[::-1]):
            last, division = sizes.shape(scale), producer(quotient)
            found = _by_root_mean_square(quotient)
            shape = None if found is None else sizes.shape(found[0])
            if found is None or division is None or shape is None or not last:
                continue
            x, steps = found
            count, (root, added, mean, squares) = len(last), steps[-4:]
            epsilon = next((number for value in added.inputs if (number := array(value)) is not None), None)
            means = (*shape[:-count], *(1,) * count)
            if epsilon is None or epsilon.size != 1 or sizes.shape(mean.outputs[0]) != means:
                continue
            if has_operator and x.dtype == ir.DataType.FLOAT and shape[-count:] == last:
                rewrite(scaling, "RMSNormalization", [x, scale], axis=-count, epsilon=float(epsilon.item()))
            elif division.op_type == "Mul" and count == 1:
                rewrite(squares, "Pow", [x, constant(graph, np.array(2, epsilon.dtype))])
                rewrite(division, "Div", [x, root.outputs[0]])
            else:
                continue
            break


def _by_root_mean_square(quotient: ir.Value) -> tuple[ir.Value, list[Node]] | None:
    """Returns what is divided by its root mean square, and the operators that make that of it, the last first.

    None if a quotient is another, or others read it or what it is made of.
    """
    division = producer(quotient, "Div", "Mul")
    if division is None or count_uses(quotient) != 1:
        return None
    if division.op_type == "Div":
        x, root = division.inputs
        steps = _steps_before(root, "Sqrt", "Add", "ReduceMean", "Pow")
        power = array(steps[-1].inputs[1]) if steps else None
        return (x, steps) if power is not None and power == 2 and steps[-1].inputs[0] is x else None
    for x, inverse in (division.inputs, division.inputs[::-1]):
        steps = _steps_before(inverse, "Reciprocal", "Sqrt", "Add", "ReduceMean", "Mul")
        if steps and all(value is x for value in steps[-1].inputs):
            return x, steps
    return None


def _steps_before(value: ir.Value, *operators: str) -> list[Node]:
    """Returns the operators that compute a value, the last first, each of which one alone reads; else nothing."""
    steps = list[Node]()
    for operator in operators:
        node = producer(value, operator)
        if node is None or count_uses(value) != 1:
            return []
        steps.append(node)
        computed = [each for each in node.inputs if array(each) is None]
        if not computed:
            return []
        value = computed[0]
    return steps


_MOST_PIXELS = 4096  # at 56 x 56 its largest error is 2.4 times Keras', at 224 x 224 3.4 times


def name_global_averages(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Averages an image by the operator for it: a convolution's own layout stays.

    ONNX Runtime's adds plainly, and of many pixels it loses more digits than Keras: an average of these stays a
    reduction.
    """
    for node in nodes(graph, "ReduceMean"):
        image, averages = node.inputs[0], node.outputs[0]
        shape = sizes.shape(image) or ()
        height, width = shape[2:] if len(shape) == 4 else (0, 0)
        is_whole = sizes.shape(averages) == (*shape[:2], 1, 1) and image.dtype == ir.DataType.FLOAT
        if is_whole and isinstance(height, int) and isinstance(width, int) and 1 < height * width <= _MOST_PIXELS:
            rewrite(node, "GlobalAveragePool", [image])


def bound_once(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Bounds from both sides by one operator; if both bounds are one number, what is bounded is that number."""

    def bound(node: Node | None) -> tuple[ir.Value, Any] | None:
        """Returns what a node bounds and by which number; None if it is no number."""
        for value, other in () if node is None or len(node.inputs) != 2 else (node.inputs, node.inputs[::-1]):
            number = array(other)
            if number is not None and number.size == 1:
                return value, number.reshape(())
        return None

    for node in nodes(graph, "Max", "Min"):
        last = bound(node)
        first = last and bound(producer(last[0], "Min" if node.op_type == "Max" else "Max"))
        if not last or not first:
            continue
        value = first[0]
        least, most = (last[1], first[1]) if node.op_type == "Max" else (first[1], last[1])
        if least == most and least.dtype.kind == "i" and sizes.shape(node.outputs[0]) == ():
            rewrite(node, "Identity", [constant(graph, least)])
        elif least <= most and value.dtype == ir.DataType.FLOAT:
            rewrite(node, "Clip", [value, constant(graph, least), constant(graph, most)])


def leave_negative_indices(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Leaves negative indices to Gather: Keras adds the size to them itself."""

    def inputs(value: ir.Value | None, operator: str) -> list[ir.Value | None]:
        node = producer(value, operator)
        return [None] * 3 if node is None else [*node.inputs]

    for gather in nodes(graph, "Gather"):
        condition, moved, index = inputs(gather.inputs[1], "Where")
        asked, zero, *_ = inputs(condition, "Less")
        first, size, *_ = inputs(moved, "Add")
        is_asked = index in (asked, *inputs(asked, "Cast")[:1]) and sizes.vector(zero) == (0,)
        shape, axis = sizes.shape(gather.inputs[0]), attribute(gather, "axis", 0)
        if index and is_asked and first is index and shape is not None and sizes.vector(size) == (shape[axis],):
            set_inputs(gather, [gather.inputs[0], index])


_PREPARING = ("Add", "Cast", "Clip", "Div", "Max", "Min", "Mul", "Sub")


def turn_images_first(graph: ir.Graph) -> None:
    """Turns an image to ONNX's order of axes before it is prepared instead of after.

    A number for each channel then meets whole rows of pixels, and not three numbers at a time. tf2onnx turns an image
    where a convolution reads it, behind a `Rescaling` or a `Normalization`.
    """
    for turn in nodes(graph, "Transpose"):
        value, order = turn.inputs[0], attribute(turn, "perm")
        steps = list[Node]()
        while value is not None and not value.is_graph_input() and count_uses(value) == 1:
            node = producer(value, *_PREPARING)
            operands = [] if node is None else [each for each in node.inputs if each and array(each) is None]
            if node is None or len(operands) != 1:
                break
            steps.append(node)
            value = operands[0]
        if not steps or not value.is_graph_input() or WEIGHT in value.meta or turn.outputs[0].is_graph_output():
            continue
        image = insert(turn, "Transpose", [value], perm=order)
        for step in reversed(steps):
            read = [image if each is value else _turned(graph, each, order) for each in step.inputs]
            value = step.outputs[0]
            image = copy(step, read, before=turn)
            stand_for(value, image)
        replace(turn.outputs[0], image)
        remove(turn)


def _turned(graph: ir.Graph, value: ir.Value | None, order: list[int]) -> ir.Value | None:
    return value if value is None else turned_constant(graph, value, order)


_WITH_WINDOWS = ("AveragePool", "Conv", "MaxPool")


def keep_sparse_windows(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Cuts the pixels that no window sees off the images.

    If the stride is larger than the window, SAME needs no padding, and less than none if pixels are left over at the
    end. TensorFlow takes that for none, ONNX Runtime cuts half of it off the beginning.
    """
    for node in all_nodes(graph, *_WITH_WINDOWS):
        if attribute(node, "auto_pad") != "SAME_UPPER":
            continue
        kernel = attribute(node, "kernel_shape")
        strides, gaps = (attribute(node, name) or [1] * len(kernel) for name in ("strides", "dilations"))
        reach = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
        image = (sizes.shape(node.inputs[0]) or ())[2:] or [None] * len(reach)
        # Of one pixel, as the rows of a line have, nothing is left over.
        if any(stride > size and pixels != 1 for stride, size, pixels in zip(strides, reach, image, strict=True)):
            set_inputs(node, [_cut(node, strides, reach), *node.inputs[1:]])


def _cut(node: Node, strides: list[int], reach: list[int]) -> ir.Value:
    """Returns the image cut off behind the last window; it stays as it is if that reaches beyond it."""
    graph, image = node.graph, node.inputs[0]
    stride = sizes_constant(graph, strides)
    last = insert(node, "Sub", [insert(node, "Shape", [image], start=2), sizes_constant(graph, [1])])
    start = insert(node, "Mul", [insert(node, "Div", [last, stride]), stride])  # of the last window
    end = insert(node, "Add", [start, sizes_constant(graph, reach)])
    axes = np.arange(len(strides)) + 2
    return insert(node, "Slice", [image, sizes_constant(graph, axes * 0), end, sizes_constant(graph, axes)])


_FIRST_WITH_AXES = 18  # the opset


def keep_pads(graph: ir.Graph, opset: int) -> None:
    """Rewrites the Pads before a MaxPool, which ONNX Runtime 1.31 may change.

    A MaxPool pads with minus infinity, and Pad_Fusion takes zeros that are padded before it for the pool's own padding:
    the result is another one wherever a window at the edge holds negative numbers alone, in every ResNetV2. It leaves a
    Pad alone that names its axes, or pads with anything but zero.
    """
    for node in all_nodes(graph, "MaxPool"):
        pad = producer(node.inputs[0], "Pad")
        if pad is None or pad.graph is not node.graph or len(pad.inputs) > 3:
            continue
        pads, *filled = map(array, pad.inputs[1:])
        if pads is None or attribute(pad, "mode", "constant") != "constant":
            continue
        image, ends, *fill = pad.inputs
        if opset >= _FIRST_WITH_AXES:
            axes = sizes_constant(pad.graph, np.arange(len(pads) // 2))
            set_inputs(pad, [image, ends, *(fill or [None]), axes])
        elif all(value is not None and value.dtype == np.float32 and not value.any() for value in filled):
            # The smallest number there is, which no sum and no product with it can tell from zero.
            smallest = constant(pad.graph, np.nextafter(np.float32(0), np.float32(1)))
            set_inputs(pad, [image, ends, smallest])
