"""Turns an image to ONNX's order of axes before it is prepared instead of after.

A number for each channel then meets whole rows of pixels, and not three numbers at a time. tf2onnx turns an image where
a convolution reads it, behind a `Rescaling` or a `Normalization`.
"""

from collections import Counter
from typing import Any

from keras_pe.export.artifacts.onnx_model import all_nodes
from keras_pe.export.onnx.finishing.constants import add_constant

_ELEMENTWISE = ("Add", "Cast", "Clip", "Div", "Max", "Min", "Mul", "Sub")


def turn_images_first(graph: Any) -> None:
    """Rewrites an `onnx.GraphProto` in place, whose nodes no longer stand in the order in which they are computed."""
    producers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    inputs, outputs = ({value.name for value in values} for values in (graph.input, graph.output))
    uses = Counter(name for node in all_nodes(graph) for name in node.input)
    for turn in [node for node in graph.node if node.op_type == "Transpose"]:
        result, turned = turn.input[0], turn.output[0]
        steps, tensor = [], result
        while tensor not in inputs and uses[tensor] == 1:
            node = producers.get(tensor)
            operands = [] if node is None else [name for name in node.input if name and name not in constants]
            if node is None or node.op_type not in _ELEMENTWISE or len(operands) != 1:
                break
            steps.append(node)
            tensor = operands[0]
        if not steps or tensor not in inputs or outputs & {turned, *(step.output[0] for step in steps)}:
            continue
        for reader in all_nodes(graph):
            reader.input[:] = [result if name == turned else name for name in reader.input]
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
