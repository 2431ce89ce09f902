"""Rules that write operators in the form that runtimes compute fastest, or compute correctly."""

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    WEIGHT,
    Node,
    array,
    attribute,
    constant,
    copy,
    count_uses,
    insert,
    number,
    order_of,
    producer,
    read_instead,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
    stand_for,
    transpose_constant,
)
from keras_pe.export.onnx.finishing.operator_kinds import BROADCASTING
from keras_pe.export.onnx.finishing.rules import NoMatchError, rule
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from keras_pe.export.onnx.handlers import opsets


@rule("Transpose", "Transpose")
def write_order(transpose: Node, sizes: KnownSizes) -> None:
    """Writes the order of a Transpose that reverses all axes, which ONNX permits to omit."""
    shape = sizes.shape(transpose.inputs[0])
    if shape is not None and "perm" not in transpose.attributes:
        transpose.attributes["perm"] = ir.AttrInt64s("perm", [*reversed(range(len(shape)))])


@rule("Gemm", "Add")
def add_bias_before_split(addition: Node, sizes: KnownSizes) -> None:
    """Adds the bias of a projection before a Reshape splits the result into heads: runtimes fuse product and bias.

    Keras splits first, so its bias has the shape of the heads. The file stores the bias flat, see `store_as_read`.
    """
    bias = next((x for x in addition.inputs if WEIGHT in x.meta and len(x.shape) > 1), None)
    split = next((node for value in addition.inputs if (node := producer(value)) is not None), None)
    product = producer(split.inputs[0], "MatMul") if split is not None and split.op_type == "Reshape" else None
    heads = None if split is None or product is None else sizes.vector(split.inputs[1])
    if bias is None or split is None or product is None or heads is None:
        return
    block = [*bias.meta[WEIGHT].shape]
    width = math.prod(block)
    # The bias fits only if each row of the product is one block.
    is_row = _stored_shape(product.inputs[1], sizes)[-1:] == [width] and [*heads[-len(block) :]] == block and width > 0
    if is_row and max(map(count_uses, (product.outputs[0], split.outputs[0], bias))) == 1:
        flat = insert(addition, "Reshape", [bias, sizes_constant(addition.graph, [width])])
        summed = insert(addition, "Add", [product.outputs[0], flat])
        rewrite(addition, "Reshape", [summed, split.inputs[1]])


def _stored_shape(value: ir.Value | None, sizes: KnownSizes) -> list[Any]:
    """Returns the shape of a weight or of a reshaped weight; an empty list for other values."""
    reshape = producer(value, "Reshape")
    shape = None if reshape is None else sizes.vector(reshape.inputs[1])
    if reshape is None or shape is None:
        return [*value.meta[WEIGHT].shape] if value is not None and WEIGHT in value.meta else []
    size, known = math.prod(_stored_shape(reshape.inputs[0], sizes)), math.prod(x for x in shape if isinstance(x, int))
    return [size // -known if each == -1 else each for each in shape] if 0 not in shape else [*shape]


@rule("RMSNormalization", "Mul")
def root_mean_square(scaling: Node, sizes: KnownSizes) -> None:
    """Writes a scaled division by a root mean square as RMSNormalization, or else with the operators Pow and Div.

    Libraries compute `x * rsqrt(mean(x * x) + epsilon) * scale`. ONNX Runtime fuses the form with Pow and Div, which
    Keras' own layer has.
    """
    for quotient, scale in (scaling.inputs, scaling.inputs[::-1]):
        found, division = _root_mean_square_of(quotient), producer(quotient)
        if found is None or division is None:
            continue
        x, (root, added, mean, squares) = found
        shape, scales = sizes.shape(x), sizes.shape(scale)
        epsilon = next((number for value in added.inputs if (number := array(value)) is not None), None)
        if epsilon is None or epsilon.size != 1:
            raise NoMatchError("its epsilon is not a constant number")
        if shape is None or not scales or sizes.shape(mean.outputs[0]) != (*shape[: -len(scales)], *[1] * len(scales)):
            raise NoMatchError("its scale has other axes than its mean")
        least = opsets.ROOT_MEAN_SQUARES_VERSION
        obstacle = None if sizes.opset >= least else f"operator set {sizes.opset} has none, {least} has"
        if x.dtype != ir.DataType.FLOAT or shape[-len(scales) :] != scales:
            obstacle = "it computes in another type than float32, or its scale is broadcast"
        if obstacle is None:
            rewrite(scaling, "RMSNormalization", [x, scale], axis=-len(scales), epsilon=float(epsilon.item()))
            return
        if division.op_type == "Mul" and len(scales) == 1:
            rewrite(squares, "Pow", [x, constant(scaling.graph, np.array(2, epsilon.dtype))])
            rewrite(division, "Div", [x, root.outputs[0]])
        raise NoMatchError(obstacle)


def _root_mean_square_of(quotient: ir.Value) -> tuple[ir.Value, list[Node]] | None:
    """Returns the tensor that is divided by its root mean square, and the Sqrt, Add, ReduceMean and square before it.

    Returns None for another quotient, and if a node outside the pattern reads the result of one of its nodes.
    """
    division = producer(quotient, "Div", "Mul")
    if division is None or count_uses(quotient) != 1:
        return None
    is_product = division.op_type == "Mul"
    for x, divisor in (division.inputs, division.inputs[::-1])[: 1 + is_product]:
        inverse = ("Reciprocal",) if is_product else ()
        for square in ("Mul", "Pow"):
            steps = _steps_before(divisor, *inverse, "Sqrt", "Add", "ReduceMean", square)
            if steps and steps[-1].inputs[0] is x and (steps[-1].inputs[1] is x or number(steps[-1].inputs[1]) == 2):
                return x, steps[is_product:]
    return None


def _steps_before(value: ir.Value, *operators: str) -> list[Node]:
    """Returns the chain of operators that computes a value, the last first; an empty list if another node reads one."""
    steps = list[Node]()
    for operator in operators:
        node = producer(value, operator)
        computed = [] if node is None else [each for each in node.inputs if array(each) is None]
        if not computed or count_uses(value) != 1:
            return []
        steps.append(node)
        value = computed[0]
    return steps


_MOST_PIXELS = 4096  # at 56 x 56 its largest error is 2.4 times Keras', at 224 x 224 3.4 times


@rule("GlobalAveragePool", "ReduceMean")
def average_image(node: Node, sizes: KnownSizes) -> None:
    """Averages an image by GlobalAveragePool, which keeps the layout of a convolution.

    ONNX Runtime adds the pixels one by one, and loses more digits than Keras on large images: these stay a ReduceMean.
    """
    image, averages = node.inputs[0], node.outputs[0]
    shape = sizes.shape(image) or ()
    height, width = shape[2:] if len(shape) == 4 else (0, 0)
    is_whole = sizes.shape(averages) == (*shape[:2], 1, 1) and image.dtype == ir.DataType.FLOAT
    if is_whole and isinstance(height, int) and isinstance(width, int) and 1 < height * width <= _MOST_PIXELS:
        rewrite(node, "GlobalAveragePool", [image])


@rule("Clip", "Max", "Min")
def clip(node: Node, sizes: KnownSizes) -> None:
    """Writes a Max and a Min as one Clip; if both bounds are the same integer, the result is that constant."""
    last = _split_bound(node)
    first = last and _split_bound(producer(last[0], "Min" if node.op_type == "Max" else "Max"))
    if not last or not first:
        return
    value = first[0]
    least, most = (last[1], first[1]) if node.op_type == "Max" else (first[1], last[1])
    if least == most and least.dtype.kind == "i" and sizes.shape(node.outputs[0]) == ():
        rewrite(node, "Identity", [constant(node.graph, least)])
    elif least > most:
        raise NoMatchError("its lower bound is above its upper bound")
    elif value.dtype == ir.DataType.FLOAT:
        rewrite(node, "Clip", [value, constant(node.graph, least), constant(node.graph, most)])


def _split_bound(node: Node | None) -> tuple[ir.Value, Any] | None:
    """Returns the value that a Max or Min bounds, and the bound; None if the bound is not a constant number."""
    for value, other in () if node is None or len(node.inputs) != 2 else (node.inputs, node.inputs[::-1]):
        if (bound := number(other)) is not None:
            return value, bound
    return None


@rule("Gather", "Gather")
def count_from_the_end(gather: Node, sizes: KnownSizes) -> None:
    """Passes negative indices to Gather, which counts them from the end; Keras adds the size to them itself."""

    def inputs(value: ir.Value | None, operator: str) -> list[ir.Value | None]:
        node = producer(value, operator)
        return [None] * 3 if node is None else [*node.inputs]

    condition, added, index = inputs(gather.inputs[1], "Where")
    compared, zero, *_ = inputs(condition, "Less")
    first, size, *_ = inputs(added, "Add")
    is_compared = index in (compared, *inputs(compared, "Cast")[:1]) and sizes.vector(zero) == (0,)
    if index is None or first is not index or not is_compared:
        return
    shape = sizes.shape(gather.inputs[0])
    if shape is None or sizes.vector(size) != (shape[attribute(gather, "axis", 0)],):
        raise NoMatchError("it adds another number to negative indices than the size of the axis")
    set_inputs(gather, [gather.inputs[0], index])


_PREPARING = ("Add", "Cast", "Clip", "Div", "Max", "Min", "Mul", "Sub")


@rule("Transpose", "Transpose")
def transpose_before_scaling(transpose: Node, sizes: KnownSizes) -> None:
    """Transposes an image to ONNX' order of axes before it is scaled instead of after.

    A number for each channel then scales whole rows of pixels instead of three numbers at a time. In files of tf2onnx,
    the transposition follows a `Rescaling` or `Normalization`, since the convolution needs it.
    """
    value, order = transpose.inputs[0], order_of(transpose)
    steps = list[Node]()
    while value is not None and not value.is_graph_input() and count_uses(value) == 1:
        node = producer(value, *_PREPARING)
        operands = [] if node is None else [each for each in node.inputs if each and array(each) is None]
        if node is None or len(operands) != 1:
            break
        steps.append(node)
        value = operands[0]
    is_image = value is not None and value.is_graph_input() and WEIGHT not in value.meta
    if not steps or not is_image or transpose.outputs[0].is_graph_output():
        return
    image = insert(transpose, "Transpose", [value], perm=order)
    for step in reversed(steps):
        read = [image if x is value else x and transpose_constant(transpose.graph, x, order) for x in step.inputs]
        value = step.outputs[0]
        image = copy(step, read, before=transpose)
        stand_for(value, image)
    replace(transpose.outputs[0], image)
    remove(transpose)


@rule("Slice", "AveragePool", "Conv", "MaxPool")
def cut_unread_pixels(node: Node, sizes: KnownSizes) -> None:
    """Cuts the pixels that no window reads off the end of an image.

    If the stride exceeds the window, the padding of SAME would be negative if pixels are left at the end. TensorFlow
    then pads nothing, and ONNX Runtime cuts half of these pixels off the beginning.
    """
    if attribute(node, "auto_pad") != "SAME_UPPER":
        return
    kernel, graph, image = attribute(node, "kernel_shape"), node.graph, node.inputs[0]
    strides, gaps = (attribute(node, name) or [1] * len(kernel) for name in ("strides", "dilations"))
    reach = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
    pixels = (sizes.shape(image) or ())[2:] or [None] * len(reach)
    # An axis of one pixel, such as the rows of a 1-D convolution, has no pixels left.
    if any(stride > size and count != 1 for stride, size, count in zip(strides, reach, pixels, strict=True)):
        stride, axes = sizes_constant(graph, strides), np.arange(len(strides)) + 2
        last = insert(node, "Sub", [insert(node, "Shape", [image], start=2), sizes_constant(graph, [1])])
        start = insert(node, "Mul", [insert(node, "Div", [last, stride]), stride])  # the start of the last window
        end = insert(node, "Add", [start, sizes_constant(graph, reach)])
        bounds = [sizes_constant(graph, axes * 0), end, sizes_constant(graph, axes)]
        set_inputs(node, [insert(node, "Slice", [image, *bounds]), *node.inputs[1:]])


@rule("Reshape", *BROADCASTING)
def add_axes_of_numbers(node: Node, sizes: KnownSizes) -> None:
    """Stores a number with as many axes as the tensor beside it, if the last axis of the tensor has one entry.

    ONNX Runtime 1.32 takes 15 times as long to add a number without axes, since it adds the last axis at a time.
    """
    shape = sizes.shape(node.outputs[0]) or ()
    for value in node.inputs if len(shape) > 1 and shape[-1] == 1 else ():
        stored = array(value)
        if stored is not None and stored.size == 1 and stored.ndim < len(shape):
            read_instead(node, value, constant(node.graph, stored.reshape((1,) * len(shape))))


_FIRST_WITH_AXES = 18  # the opset


@rule("Pad", "MaxPool")
def protect_pad(node: Node, sizes: KnownSizes) -> None:
    """Writes the Pad before a MaxPool in a form that ONNX Runtime 1.31 does not fuse into the MaxPool.

    A MaxPool pads with minus infinity, and Pad_Fusion takes padded zeros for the padding of the MaxPool. The result is
    wrong if a window at the edge holds only negative numbers, as in every ResNetV2. Pad_Fusion skips a Pad that names
    its axes, or that pads with another number than zero.
    """
    pad = producer(node.inputs[0], "Pad")
    if pad is None or pad.graph is not node.graph or len(pad.inputs) > 3:
        return
    pads, *filled = map(array, pad.inputs[1:])
    if pads is None or attribute(pad, "mode", "constant") != "constant":
        return
    image, ends, *fill = pad.inputs
    if sizes.opset >= _FIRST_WITH_AXES:
        axes = sizes_constant(pad.graph, np.arange(len(pads) // 2))
        set_inputs(pad, [image, ends, *(fill or [None]), axes])
    elif all(value is not None and value.dtype == np.float32 and not value.any() for value in filled):
        # Sums and products with the smallest float32 number equal those with zero.
        smallest = constant(pad.graph, np.nextafter(np.float32(0), np.float32(1)))
        set_inputs(pad, [image, ends, smallest])
