"""An ONNX model: its bytes, read without the weights, the graphs in it, and the files that hold its weights.

The bytes are protobuf's wire format: a message is a sequence of fields, each behind its number and its length. A large
file can so be walked without loading it, and written without a copy of what it holds.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

MODEL_GRAPH, GRAPH_INITIALIZER, TENSOR_RAW_DATA = 7, 5, 9  # field numbers in ONNX's ModelProto, GraphProto, TensorProto
SMALL = 1024  # bytes: weights below are read, and written, with the model

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_LONGEST_VARINT = 10  # bytes: 64 bits in sevens
# The fields of ModelProto. The versions are numbers, the others have a length.
_MODEL_NUMBERS = {1, 5}
_MODEL_MESSAGES = {2, 3, 4, 6, MODEL_GRAPH, 8, 14, 20, 25, 26}


class WireFormatError(ValueError):
    """The bytes are not a protobuf message, or a part of one is missing."""


def fields(file: BinaryIO, end: int, start: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields the number and the wire type of each field of a message, and where it, its content and the next start.

    Raises:
        WireFormatError: If the bytes are not a whole message.
    """
    while start < end:
        file.seek(start)
        key = _read_varint(file)
        content = file.tell()
        wire_type = key & 7
        if wire_type == _VARINT:
            _read_varint(file)
            stop = file.tell()
        elif wire_type == _BYTES:
            length = _read_varint(file)
            content = file.tell()
            stop = content + length
        elif wire_type in (_FIXED32, _FIXED64):
            stop = content + (4 if wire_type == _FIXED32 else 8)
        else:
            raise WireFormatError(f"wire type {wire_type}")
        if stop > end:
            raise WireFormatError("a field ends behind its message")
        yield key >> 3, wire_type, start, content, stop
        start = stop


def is_onnx(path: Path) -> bool:
    """Whether a file is a whole `onnx.ModelProto` with a graph, by its outermost fields."""
    found = set()
    with path.open("rb") as file:
        try:
            for number, wire_type, *_ in fields(file, os.fstat(file.fileno()).st_size):
                found.add(number)
                if number not in (_MODEL_NUMBERS if wire_type == _VARINT else _MODEL_MESSAGES):
                    return False
        except WireFormatError:
            return False
    return MODEL_GRAPH in found  # TensorFlow's saved_model.pb has no such field


def read_slice(file: BinaryIO, start: int, stop: int) -> bytes:
    """Returns the bytes of a file from `start` up to `stop`."""
    file.seek(start)
    return file.read(stop - start)


def header(number: int, length: int) -> bytes:
    """Returns what stands before the content of a field of so many bytes."""
    return varint(number << 3 | _BYTES) + varint(length)


def varint(value: int) -> bytes:
    """Returns a number in as many bytes as it needs."""
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def _read_varint(file: BinaryIO) -> int:
    value = 0
    for place in range(_LONGEST_VARINT):
        byte = file.read(1)
        if not byte:
            raise WireFormatError("the file ends within a number")
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:
            return value
    raise WireFormatError("a number is longer than 64 bits")


def read_without_weights(path: Path) -> Any:
    """Returns the `onnx.ModelProto` with each large weight as a reference into the file itself.

    ONNX accepts such a reference as external data. A runtime then maps the weights from the file instead of parsing
    them.

    Raises:
        ValueError: If the file ends early or is not a protobuf message.
    """
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        try:
            model, parts = ModelProto(), bytearray()
            for number, _, start, content, stop in fields(file, end):
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
    for number, _, begin, content, stop in fields(file, end, start):
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
    for number, _, begin, content, stop in fields(file, end, start):
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
    """Returns a graph and its subgraphs, each before the subgraphs of its own nodes."""
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


def layer_of(name: str) -> str:
    """Returns the path of the layer in the name of a node or tensor; empty if it has none."""
    return name.strip("/").rpartition("/")[0]


def needed_names(node: Any) -> Iterator[str]:
    """Returns the inputs of a node, also the ones that its bodies take from the surrounding graph."""
    yield from node.input
    for body in bodies(node):
        own = {x.name for x in (*body.input, *body.initializer)} | {x for inner in body.node for x in inner.output}
        yield from (name for inner in body.node for name in needed_names(inner) if name not in own)
        yield from (output.name for output in body.output if output.name not in own)


def external_files(model: Any, path: Path) -> dict[str, Path]:
    """Returns the files beside the model, or below, that hold its weights, as named in the model. They may be missing.

    Raises:
        ValueError: If a name leads out of the model's folder, which ONNX does not allow.
    """
    names = {
        entry.value
        for tensor in _tensors(model.graph)
        if tensor.data_location == tensor.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    } - {path.name}
    return {name: external_file(path, name) for name in sorted(names)}


def weight_files(path: Path) -> dict[str, Path]:
    """Returns the files that hold weights of an ONNX file, as the file calls them.

    Raises:
        ValueError: If it is not an ONNX file, or names one outside its folder.
    """
    try:
        return external_files(read_without_weights(path), path)
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error


def external_file(path: Path, location: str) -> Path:
    """Returns the file that a tensor of a model names as the place of its numbers.

    Args:
        path: The model's file.
        location: Location in the tensor.

    Raises:
        ValueError: If it leads out of the model's folder, which ONNX does not allow, or nowhere.
    """
    place = PurePosixPath(location.replace("\\", "/"))
    if not place.parts:
        raise ValueError(f"names no file for its weights, {location!r}.")
    if place.is_absolute() or ".." in place.parts or ":" in place.parts[0]:
        raise ValueError(f"names a file of weights outside its folder, {location!r}, which ONNX does not allow.")
    file = path.parent / location
    # A link may lead out as well. A model that is itself a link, as in a cache of downloads, has weights where it is.
    folders = path.parent.resolve(), path.resolve().parent
    if not any(file.resolve().is_relative_to(folder) for folder in folders):
        raise ValueError(
            f"names a file of weights that is a link out of its folder, {location!r}, which ONNX does not allow."
        )
    return file


def _tensors(graph: Any) -> Iterator[Any]:
    """Returns every tensor that a graph holds, those in the attributes and branches of its nodes among them."""
    for each in all_graphs(graph):
        yield from each.initializer
        for sparse in each.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in all_nodes(graph):
        for attribute in node.attribute:
            yield from [attribute.t, *attribute.tensors]
