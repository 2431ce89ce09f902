"""Stores a weight as the operators that read it want it, where the graph would turn or reshape it in every run.

Keras has the kernel of a convolution as (height, width, in, out), ONNX as (out, in, height, width). A runtime that
folds no constants would turn it each time, and one that does would hold it twice while a file is opened.
"""

import math
from collections.abc import Mapping
from typing import Any

from keras_pe.export.artifacts.layout import Layout
from keras_pe.export.artifacts.onnx_model import all_nodes, bodies


def store_as_read(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
    """Takes the Transposes and Reshapes of weights out of an `onnx.GraphProto` in place.

    A weight that is read in several ways is left as it is: it would be stored twice.

    Args:
        graph: The graph, whose weights are no initializers yet.
        shapes: The shape of each weight, by its name.

    Returns:
        How each weight whose nodes are gone is to be stored.
    """
    readers: dict[str, list[Any]] = {}
    for node in all_nodes(graph):
        for name in (*node.input, *(output.name for body in bodies(node) for output in body.output)):
            readers.setdefault(name, []).append(node)
    own = {node.output[0]: node for node in graph.node if node.output}
    outputs = {output.name for output in graph.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    stored: dict[str, Layout] = {}
    gone: set[str] = set()
    for weight, shape in shapes.items():
        name, layout = weight, Layout(shape)
        while name not in outputs and len(readers.get(name, ())) == 1:
            (reader,) = readers[name]
            step = _step(reader, layout.shapes[-1], constants)
            result = reader.output[0]
            if step is None or own.get(result) is not reader or result in outputs:
                break
            layout, name = layout.then(*step), result
            gone.add(name)
        if layout.steps:
            stored[weight] = layout
            for reader in readers.get(name, ()):
                reader.input[:] = [weight if each == name else each for each in reader.input]
    kept = [node.SerializeToString() for node in graph.node if not gone.intersection(node.output)]
    del graph.node[:]
    for content in kept:
        graph.node.add().ParseFromString(content)
    return stored


def _step(node: Any, shape: tuple[int, ...], constants: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    """Returns what a node does to its first input, if that is known without running it."""
    from onnx import numpy_helper

    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Transpose" and "perm" in attributes:
        return "transpose", tuple(attributes["perm"].ints)
    if len(node.input) != 2 or node.input[1] not in constants or attributes or 0 in shape:
        return None
    wanted = numpy_helper.to_array(constants[node.input[1]]).tolist()
    if node.op_type == "Unsqueeze":
        rest, rank = iter(shape), len(shape) + len(wanted)
        added = {axis % rank for axis in wanted}
        return "reshape", tuple(1 if axis in added else next(rest) for axis in range(rank))
    if node.op_type == "Reshape":
        sizes = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
        if -1 in sizes:
            sizes[sizes.index(-1)] = math.prod(shape) // -math.prod(sizes)
        return "reshape", tuple(sizes)
    return None
