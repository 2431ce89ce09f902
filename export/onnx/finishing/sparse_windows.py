"""Windows with gaps between them see what they see in TensorFlow: ONNX's own padding may move them.

Where the stride is larger than the window, SAME needs no padding, and less than none where pixels are left over at the
end. TensorFlow takes that for none, ONNX Runtime 1.31 cuts half of it off the beginning.
"""

from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_graph import bodies
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
