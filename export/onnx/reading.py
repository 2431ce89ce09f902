"""Reads an ONNX file without its weights: their place in the file is noted, their bytes stay on disk."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # field numbers in ModelProto, GraphProto, TensorProto
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_SMALL = 1024  # bytes: weights below are read


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
            for number, start, content, stop in _fields(file, end):
                if number == _GRAPH:
                    _read_graph(file, content, stop, path.name, model.graph)
                else:
                    parts += _slice(file, start, stop)
            model.MergeFromString(bytes(parts))
        except (DecodeError, IndexError) as error:
            raise ValueError(f"{str(path)!r} is not a whole ONNX file.") from error
    return model


def _read_graph(file: BinaryIO, start: int, end: int, name: str, graph: Any) -> None:
    parts = bytearray()
    tensors = []
    for number, begin, content, stop in _fields(file, end, start):
        if number == _INITIALIZER:
            tensors.append((content, stop))
        else:
            parts += _slice(file, begin, stop)
    graph.MergeFromString(bytes(parts))
    for begin, stop in tensors:
        _read_tensor(file, begin, stop, name, graph.initializer.add())


def _read_tensor(file: BinaryIO, start: int, end: int, name: str, tensor: Any) -> None:
    parts = bytearray()
    place = None
    for number, begin, content, stop in _fields(file, end, start):
        if number == _RAW_DATA and stop - content >= _SMALL:
            place = (content, stop - content)
        else:
            parts += _slice(file, begin, stop)
    tensor.MergeFromString(bytes(parts))
    if place:
        tensor.data_location = tensor.EXTERNAL
        for key, value in zip(("location", "offset", "length"), (name, *place), strict=True):
            tensor.external_data.add(key=key, value=str(value))


def _fields(file: BinaryIO, end: int, start: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Returns the number of each field of a message, and where the field, its content and the next field start."""
    while start < end:
        file.seek(start)
        key = _varint(file)
        content = file.tell()
        wire = key & 7
        if wire == _VARINT:
            _varint(file)
            stop = file.tell()
        elif wire == _BYTES:
            length = _varint(file)
            content = file.tell()
            stop = content + length
        elif wire in (_FIXED32, _FIXED64):
            stop = content + (4 if wire == _FIXED32 else 8)
        else:
            raise IndexError(f"wire type {wire}")
        if stop > end:
            raise IndexError("the field ends behind its message")
        yield key >> 3, start, content, stop
        start = stop


def _varint(file: BinaryIO) -> int:
    value = shift = 0
    while True:
        byte = file.read(1)[0]  # IndexError at the end of the file
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7


def _slice(file: BinaryIO, start: int, stop: int) -> bytes:
    file.seek(start)
    return file.read(stop - start)
