"""Named arrays as one message that a script in any language can read.

A message is the length of its header (four bytes, little-endian), the header (JSON, UTF-8), and the bytes of the arrays
one after another, little-endian and row by row, as the header's "tensors" lists them.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.runtimes import Array, Arrays

Header = dict[str, Any]


def pack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Returns a message.

    Raises:
        ValueError: If an array's type has no place in a message, such as bfloat16.
    """
    tensors, buffers = [], []
    for name, array in arrays.items():
        entry: Header = {"name": name, "dtype": _dtype_name(name, array), "shape": list(array.shape)}
        if entry["dtype"] == "string":
            entry["strings"] = [_text(value) for value in array.ravel().tolist()]
        else:
            buffers.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        tensors.append(entry)
    head = json.dumps({**header, "tensors": tensors}).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *buffers])


def unpack(message: bytes) -> tuple[Header, Arrays]:
    """Returns the header and the arrays of a message.

    Raises:
        ValueError: If it is shorter than its header says.
    """
    start = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:start])
    arrays: Arrays = {}
    for entry in header.pop("tensors"):
        shape = tuple(entry["shape"])
        if entry["dtype"] == "string":
            arrays[entry["name"]] = np.array(entry["strings"], dtype=object).reshape(shape)
            continue
        dtype = np.dtype(entry["dtype"]).newbyteorder("<")
        count = math.prod(shape)
        arrays[entry["name"]] = np.frombuffer(message, dtype, count, start).reshape(shape).astype(entry["dtype"])
        start += count * dtype.itemsize
    return header, arrays


def _dtype_name(name: str, array: Array) -> str:
    if array.dtype.kind in "OSU":
        return "string"
    if array.dtype.kind not in "fiub":
        raise ValueError(f"An array of type {array.dtype.name} cannot be sent. Received: {name!r}.")
    return array.dtype.name


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
