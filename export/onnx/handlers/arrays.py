"""Array surgery: BroadcastArgs, Cross, XlaDynamicUpdateSlice, ReverseV2, Cumprod on a last axis, ArgMax of truths."""

from typing import Any

import numpy as np
from tf2onnx.handler import tf_op
from tf2onnx.onnx_opset.math import CumProd

from keras_pe.export.onnx.handlers.replacement import OPSETS, Replacement, handler


@handler("BroadcastArgs")
def broadcast_args(at: Replacement) -> None:
    """The shape of what two empty tensors of the two shapes broadcast to."""
    first, second = (at.cast(shape, "int64") for shape in at.inputs)
    tensor = at.emit("Expand", at.emit("ConstantOfShape", first), second)
    at.finish(at.cast_like_output(at.emit("Shape", tensor)))


@handler("Cross")
def cross(at: Replacement) -> None:
    """The cross product along the last axis, by its definition."""
    a, b = at.inputs
    turned = [[at.emit("Gather", x, at.integers(*order), axis=-1) for order in ((1, 2, 0), (2, 0, 1))] for x in (a, b)]
    (a1, a2), (b1, b2) = turned
    at.finish(at.emit("Sub", at.emit("Mul", a1, b2), at.emit("Mul", a2, b1)))


@handler("XlaDynamicUpdateSlice")
def dynamic_update_slice(at: Replacement) -> None:
    """Pads the update, and a mask of it, to the size of what it is written into, and takes it where the mask is set."""
    x, update, start = at.inputs
    size, part = at.emit("Shape", x), at.emit("Shape", update)
    room = at.emit("Sub", size, part)
    # XLA moves a start that does not fit; a pad that is negative would cut.
    before = at.emit("Min", at.emit("Max", at.cast(start, "int64"), at.constant(0, "int64")), room)
    pads = at.emit("Concat", before, at.emit("Sub", room, before), axis=0)
    truth = at.emit("Expand", at.constant(1, "int32"), part)
    inside = at.cast(at.emit("Pad", truth, pads), "bool")
    at.finish(at.emit("Where", inside, at.emit("Pad", update, pads), x))


@handler("ReverseV2")
def reverse(at: Replacement) -> None:
    """One slice that goes backwards, where tf2onnx takes a transposition, a ReverseSequence and eight nodes more."""
    x, _ = at.inputs
    axes = [int(axis) for axis in at.node.inputs[1].get_tensor_value()]
    if not axes:
        at.finish(x)
        return
    ends = [np.iinfo("int64").min] * len(axes)
    bounds = ([-1] * len(axes), ends, axes, [-1] * len(axes))
    at.finish(at.emit("Slice", x, *(at.integers(*each) for each in bounds)))


@handler("ArgMax", "ArgMin")
def arg_extreme(at: Replacement) -> None:
    """The first extreme along an axis, of truths too, which ONNX does not order."""
    x, _ = at.inputs
    axis = at.node.inputs[1].get_tensor_value()
    ordered = x if at.numpy_dtype(x).kind != "b" else at.cast(x, "int32")
    at.finish(at.cast_like_output(at.emit(at.node.type, ordered, axis=axis, keepdims=0)))


def cumprod(graph: Any, node: Any, **_: Any) -> None:
    """tf2onnx's own loop, which takes an axis counted from the front only."""
    axis = int(node.inputs[1].get_tensor_value())
    rank = len(graph.get_shape(node.input[0]))
    at = Replacement(graph, node)
    graph.replace_input(node, node.input[1], at.constant(axis % rank, "int32"), 1)
    CumProd.version_10(graph, node)


for _opset in OPSETS:
    tf_op.register_handler(cumprod, _opset, ["Cumprod"], "", {})
