"""Protobuf's wire format, read and written: a message is a sequence of fields, each behind its number and its length.

A large file can so be walked without loading it, and written without a copy of what it holds.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MODEL_GRAPH, GRAPH_INITIALIZER, TENSOR_RAW_DATA = 7, 5, 9  # field numbers in ONNX's ModelProto, GraphProto, TensorProto
SMALL = 1024  # bytes: weights below are read, and written, with the model

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_LONGEST_VARINT = 10  # bytes: 64 bits in sevens
# The fields of ModelProto. The versions are numbers, the others have a length.
_MODEL_NUMBERS = {1, 5}
_MODEL_MESSAGES = {2, 3, 4, 6, MODEL_GRAPH, 8, 14, 20, 25, 26}


class WireFormatError(ValueError):
    """The bytes are no protobuf message, or a part of one is missing."""


def fields(file: BinaryIO, end: int, start: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Returns the number of each field of a message, and where the field, its content and the next field start.

    Raises:
        WireFormatError: If the bytes are no whole message.
    """
    for number, _, begin, content, stop in _typed_fields(file, end, start):
        yield number, begin, content, stop


def is_onnx(path: Path) -> bool:
    """Whether a file is a whole `onnx.ModelProto` with a graph, told from its outermost fields."""
    found = set()
    with path.open("rb") as file:
        try:
            for number, wire_type, *_ in _typed_fields(file, os.fstat(file.fileno()).st_size):
                found.add(number)
                if number not in (_MODEL_NUMBERS if wire_type == _VARINT else _MODEL_MESSAGES):
                    return False
        except WireFormatError:
            return False
    return MODEL_GRAPH in found  # which TensorFlow's saved_model.pb has not


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


def _typed_fields(file: BinaryIO, end: int, start: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
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
