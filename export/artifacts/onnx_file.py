"""An ONNX file: what it takes and returns, what its exporter said about it, and the files of its weights."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import Artifact, TensorInfo
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes, read_without_weights
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


def _tensors(graph: Any) -> Iterator[Any]:
    """Returns every tensor that a graph holds, those in the attributes and branches of its nodes among them."""
    for each in all_graphs(graph):
        yield from each.initializer
        for sparse in each.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in all_nodes(graph):
        for attribute in node.attribute:
            yield from [attribute.t, *attribute.tensors]


def _notes(metadata: Mapping[str, str]) -> tuple[str, ...]:
    try:
        notes = json.loads(metadata.get("keras_pe.notes", "[]"))
    except json.JSONDecodeError:  # somebody else's
        return ()
    return tuple(map(str, notes)) if isinstance(notes, list) else ()
