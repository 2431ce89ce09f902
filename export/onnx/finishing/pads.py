"""Pads stay in front of a MaxPool: ONNX Runtime 1.31 takes zeros that are padded for the pool's own padding.

A MaxPool pads with minus infinity, so that its Pad_Fusion changes the result wherever a window at the edge holds
negative numbers alone: in every ResNetV2. It leaves a Pad alone that names its axes, or pads with anything but zero.
"""

from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_graph import bodies
from keras_pe.export.onnx.finishing.constants import add_constant

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
