"""An ONNX model: read without its weights, and the graphs in it, one within another as the branches of an `If` are."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keras_pe.export.artifacts.wire_format import (
    GRAPH_INITIALIZER,
    MODEL_GRAPH,
    SMALL,
    TENSOR_RAW_DATA,
    WireFormatError,
    fields,
    read_slice,
)


def read_without_weights(path: Path) -> Any:
    """Returns the `onnx.ModelProto` with each large weight as a reference into the file itself.

    ONNX takes such a reference as external data, so that a runtime which is given the result maps the weights from the
    file instead of parsing them.

    Raises:
        ValueError: If the file ends early or is no protobuf message.
    """
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        try:
            model, parts = ModelProto(), bytearray()
            for number, start, content, stop in fields(file, end):
                if number == MODEL_GRAPH:
                    _read_graph(file, content, stop, path.name, model.graph)
                else:
                    parts += read_slice(file, start, stop)
            model.MergeFromString(bytes(parts))
        except (DecodeError, WireFormatError) as error:
            raise ValueError("is not a whole ONNX file.") from error
    return model


def _read_graph(file: BinaryIO, start: int, end: int, name: str, graph: Any) -> None:
    parts = bytearray()
    tensors = []
    for number, begin, content, stop in fields(file, end, start):
        if number == GRAPH_INITIALIZER:
            tensors.append((content, stop))
        else:
            parts += read_slice(file, begin, stop)
    graph.MergeFromString(bytes(parts))
    for begin, stop in tensors:
        _read_tensor(file, begin, stop, name, graph.initializer.add())


def _read_tensor(file: BinaryIO, start: int, end: int, name: str, tensor: Any) -> None:
    parts = bytearray()
    place = None
    for number, begin, content, stop in fields(file, end, start):
        if number == TENSOR_RAW_DATA and stop - content >= SMALL:
            place = (content, stop - content)
        else:
            parts += read_slice(file, begin, stop)
    tensor.MergeFromString(bytes(parts))
    if place:
        tensor.data_location = tensor.EXTERNAL
        for key, value in zip(("location", "offset", "length"), (name, *place), strict=True):
            tensor.external_data.add(key=key, value=str(value))


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
