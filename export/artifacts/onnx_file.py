"""An ONNX file read without its weights: their place in the file is noted, their bytes stay on disk."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np

from keras_pe.export.artifacts.artifact import Artifact, TensorInfo
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.wire_format import (
    GRAPH_INITIALIZER,
    MODEL_GRAPH,
    SMALL,
    TENSOR_RAW_DATA,
    WireFormatError,
    fields,
    read_slice,
)
from keras_pe.export.dependencies import require


def read(path: Path) -> Artifact:
    """Returns what the file takes and returns, and what its exporter said about it. Needs no TensorFlow.

    Raises:
        ValueError: With the end of a sentence about the file, if it cannot be read.
    """
    require("read_artifact", "onnx")
    model = read_without_weights(path)
    if not model.graph.output:
        raise ValueError("is an ONNX file without outputs.")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    weights = {tensor.name for tensor in model.graph.initializer}
    files = {path, *external_files(model, path).values()}
    return Artifact(
        format=Format.ONNX,
        path=path,
        inputs=tuple(tensor_info(value) for value in model.graph.input if value.name not in weights),
        outputs=tuple(tensor_info(value) for value in model.graph.output),
        nbytes=sum(file.stat().st_size for file in files if file.exists()),
        seconds=0.0,
        opset_version=next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), None),
        notes=_notes(metadata),
        metadata=metadata,
    )


def tensor_info(value: Any) -> TensorInfo:
    """Returns the name, shape and element type of an `onnx.ValueInfoProto`.

    Raises:
        ValueError: If it is no tensor, but a sequence or a map.
    """
    from onnx import helper

    tensor = value.type.tensor_type
    if not tensor.elem_type:
        raise ValueError(f"must take and return tensors, and {value.name!r} is none.")
    shape = (
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}_axis_{axis}"
        for axis, dim in enumerate(tensor.shape.dim)
    )
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        raise ValueError(f"has the unknown element type {tensor.elem_type} for {value.name!r}.") from None
    return TensorInfo(value.name, tuple(shape), "string" if dtype == np.dtype(object) else dtype.name)


def external_files(model: Any, path: Path) -> dict[str, Path]:
    """Returns the files beside the model, or below, that hold weights of it, as it calls them. They need not be there.

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
        ValueError: If it is no ONNX file, or names one outside its folder.
    """
    try:
        return external_files(read_without_weights(path), path)
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error


def external_file(path: Path, location: str) -> Path:
    """Returns the file that a tensor of a model names as the place of its numbers.

    Args:
        path: The model's file.
        location: What the tensor says.

    Raises:
        ValueError: If it leads out of the model's folder, which ONNX does not allow.
    """
    place = PurePosixPath(location.replace("\\", "/"))
    if place.is_absolute() or ".." in place.parts or ":" in place.parts[0]:
        raise ValueError(f"names a file of weights outside its folder, {location!r}, which ONNX does not allow.")
    return path.parent / location


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


def _tensors(graph: Any) -> Iterator[Any]:
    """Returns every tensor that a graph holds, those in the attributes and branches of its nodes among them."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from [attribute.t, *attribute.tensors]
            for body in [attribute.g, *attribute.graphs]:
                yield from _tensors(body)


def _notes(metadata: Mapping[str, str]) -> tuple[str, ...]:
    try:
        notes = json.loads(metadata.get("keras_pe.notes", "[]"))
    except json.JSONDecodeError:  # somebody else's
        return ()
    return tuple(map(str, notes)) if isinstance(notes, list) else ()
