"""Windows of pools and convolutions see what they see in TensorFlow, which padding in ONNX Runtime 1.31 may change.

A MaxPool pads with minus infinity, and Pad_Fusion takes zeros that are padded before it for the pool's own padding: the
result is another one wherever a window at the edge holds negative numbers alone, in every ResNetV2. It leaves a Pad
alone that names its axes, or pads with anything but zero.

Where the stride is larger than the window, SAME needs no padding, and less than none where pixels are left over at the
end. TensorFlow takes that for none, ONNX Runtime cuts half of it off the beginning.
"""

from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import bodies
from keras_pe.export.onnx.finishing.constants import add_constant

_WITH_WINDOWS = ("AveragePool", "Conv", "MaxPool")


def keep_sparse_windows(graph: Any) -> None:
    """Cuts the pixels that no window sees off the images of an `onnx.GraphProto`, in place."""
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
    del graph.node[:]
    graph.node.extend(nodes)


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
    """Rewrites the Pads before a MaxPool of an `onnx.GraphProto` in place."""
    producer = {output: node for node in graph.node for output in node.output}
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
