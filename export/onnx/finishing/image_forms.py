"""Images as runtimes compute them best and rightly: turned before they are prepared, and what their windows see."""

from collections import Counter
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes, bodies
from keras_pe.export.onnx.finishing.graph_edits import add_constant, producers_of, read_instead, set_nodes

_PREPARING = ("Add", "Cast", "Clip", "Div", "Max", "Min", "Mul", "Sub")


def turn_images_first(graph: Any) -> None:
    """Turns an image to ONNX's order of axes, in an `onnx.GraphProto` in place, before it is prepared instead of after.

    A number for each channel then meets whole rows of pixels, and not three numbers at a time. tf2onnx turns an image
    where a convolution reads it, behind a `Rescaling` or a `Normalization`. The nodes no longer stand in the order in
    which they are computed.
    """
    producers = producers_of(graph)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    inputs, outputs = ({value.name for value in values} for values in (graph.input, graph.output))
    uses = Counter(name for node in all_nodes(graph) for name in node.input)
    for turn in [node for node in graph.node if node.op_type == "Transpose"]:
        result, turned = turn.input[0], turn.output[0]
        steps, tensor = [], result
        while tensor not in inputs and uses[tensor] == 1:
            node = producers.get(tensor)
            operands = [] if node is None else [name for name in node.input if name and name not in constants]
            if node is None or node.op_type not in _PREPARING or len(operands) != 1:
                break
            steps.append(node)
            tensor = operands[0]
        if not steps or tensor not in inputs or outputs & {turned, *(step.output[0] for step in steps)}:
            continue
        read_instead(graph, {turned: result})
        for step in steps:
            step.input[:] = [_turned(graph, constants, name, turn.attribute[0].ints) for name in step.input]
        steps[-1].input[:] = [turned if name == tensor else name for name in steps[-1].input]
        turn.input[0] = tensor


def _turned(graph: Any, constants: dict[str, Any], name: str, order: Any) -> str:
    """Returns the name of a constant in another order of axes; of what is computed, its own."""
    from onnx import numpy_helper

    if name not in constants:
        return name
    value = numpy_helper.to_array(constants[name])
    if value.size == 1:
        return name
    filled = value.reshape((1,) * (len(order) - value.ndim) + value.shape)
    return add_constant(graph, f"{name}/turned", filled.transpose(order))


_WITH_WINDOWS = ("AveragePool", "Conv", "MaxPool")


def keep_sparse_windows(graph: Any) -> None:
    """Cuts the pixels that no window sees off the images of an `onnx.GraphProto`, in place.

    Where the stride is larger than the window, SAME needs no padding, and less than none where pixels are left over at
    the end. TensorFlow takes that for none, ONNX Runtime cuts half of it off the beginning.
    """
    from onnx import helper

    nodes = []
    for node in graph.node:
        for body in bodies(node):
            keep_sparse_windows(body)
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type in _WITH_WINDOWS and attributes.get("auto_pad") == b"SAME_UPPER":
            sizes = attributes["kernel_shape"]
            strides, gaps = (attributes.get(name) or [1] * len(sizes) for name in ("strides", "dilations"))
            reach = [(size - 1) * gap + 1 for size, gap in zip(sizes, gaps, strict=True)]
            if any(stride > size for stride, size in zip(strides, reach, strict=True)):
                nodes += _cut(graph, node, strides, reach)
        nodes.append(node)
    set_nodes(graph, nodes)


def _cut(graph: Any, node: Any, strides: list[int], reach: list[int]) -> list[Any]:
    """Returns the nodes that cut the image off behind the last window; it stays where that reaches beyond it."""
    from onnx import helper

    def constant(name: str, values: Any) -> str:
        return add_constant(graph, f"{node.name}_{name}", np.asarray(values, np.int64))

    def emit(operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{node.name}_{operator}"
        emitted.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

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
    producer = producers_of(graph)
    for node in list(graph.node):
        for body in bodies(node):
            keep_pads(body, opset)
        pad = producer.get(node.input[0]) if node.op_type == "MaxPool" else None
        if pad is None or pad.op_type != "Pad" or len(pad.input) > 3:
            continue
        mode = next((attribute.s for attribute in pad.attribute if attribute.name == "mode"), b"constant")
        constants = {tensor.name: tensor for tensor in graph.initializer}
        if mode != b"constant" or pad.input[1] not in constants:
            continue
        pads = constants[pad.input[1]]
        if opset >= _FIRST_WITH_AXES:
            pad.input.extend([""] * (3 - len(pad.input)))
            pad.input.append(add_constant(graph, f"{pad.name}_axes", np.arange(pads.dims[0] // 2)))
        elif len(pad.input) < 3 or _is_float_zero(constants.get(pad.input[2])):
            # The smallest number there is, which no sum and no product with it can tell from zero.
            smallest = add_constant(graph, f"{pad.name}_value", np.nextafter(np.float32(0), np.float32(1)))
            pad.input[2:] = [smallest]


def _is_float_zero(tensor: Any) -> bool:
    from onnx import TensorProto, numpy_helper

    return tensor is not None and tensor.data_type == TensorProto.FLOAT and not numpy_helper.to_array(tensor).any()
