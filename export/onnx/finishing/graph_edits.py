"""What changes of a graph have in common: who makes and reads a tensor, constants, names that stand for others."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes


def add_constant(graph: Any, name: str, value: Any) -> str:
    """Adds an array to an `onnx.GraphProto` and returns its name."""
    from onnx import numpy_helper

    graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def producers_of(graph: Any) -> dict[str, Any]:
    """Returns the node that makes each tensor of a graph, those within its nodes aside."""
    return {output: node for node in graph.node for output in node.output}


def outputs_of(graph: Any) -> set[str]:
    """Returns what a graph returns, or one in the attributes of its nodes."""
    return {output.name for each in all_graphs(graph) for output in each.output}


def count_uses(graph: Any) -> Counter[str]:
    """Returns how often each tensor is read, or returned."""
    uses = Counter(name for node in all_nodes(graph) for name in node.input)
    uses.update(output.name for each in all_graphs(graph) for output in each.output)
    return uses


def read_instead(graph: Any, same: Mapping[str, str]) -> None:
    """Lets every node of a graph, in place, read a tensor that stands for another instead of that."""
    for node in all_nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]


def set_nodes(graph: Any, nodes: Iterable[Any]) -> None:
    """Gives a graph these nodes, of which some may be its own."""
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
