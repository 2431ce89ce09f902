"""The graphs of an ONNX model, one within another as the branches of an `If` are, and what a node needs of them."""

from collections.abc import Iterator
from typing import Any


def bodies(node: Any) -> Iterator[Any]:
    """Returns the graphs in the attributes of a node, such as the branches of an `If`."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_graphs(graph: Any) -> Iterator[Any]:
    """Returns a graph and those within it, each before those within its own nodes."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from all_graphs(body)


def all_nodes(graph: Any) -> Iterator[Any]:
    """Returns the nodes of a graph, each before those of the graphs in its attributes."""
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from all_nodes(body)


def needed_names(node: Any) -> Iterator[str]:
    """Returns the tensors that a node needs, those that its bodies take from the graph around them among them."""
    yield from node.input
    for body in bodies(node):
        own = {x.name for x in (*body.input, *body.initializer)} | {x for inner in body.node for x in inner.output}
        yield from (name for inner in body.node for name in needed_names(inner) if name not in own)
        yield from (output.name for output in body.output if output.name not in own)
