"""The writer of ONNX files, which streams the file with one weight in memory at a time.

Protobuf's own serializer needs three copies of every weight (variable, message, bytes) and is limited to 2 GiB. A
message is a sequence of fields, so the writer appends each weight, with a header, to the rest of the graph.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keras_pe.export.artifacts.onnx_model import GRAPH_INITIALIZER, MODEL_GRAPH, SMALL, TENSOR_RAW_DATA, header
from keras_pe.export.graph.trace_function import Weight

_ALIGNMENT = 4096  # bytes of a page, so that a runtime can map each weight into memory


def write_model(model: Any, weights: Sequence[Weight], path: Path, external: bool) -> list[Path]:
    """Writes the model with the weights as initializers.

    Args:
        model: An `onnx.ModelProto` without the weights.
        weights: The weights, in the order of writing.
        path: The file to write.
        external: Whether weights go to a second file beside `path`, which is named after its content.

    Returns:
        The written files, with the model last.
    """
    files = []
    references: dict[str, tuple[str, int, int]] = {}
    if external:
        data, references = _write_data([w for w in weights if w.nbytes >= SMALL], path)
        files.append(data)
    head, graph = type(model).FromString(model.SerializeToString(deterministic=True)), model.graph
    head.ClearField("graph")
    graph_bytes = graph.SerializeToString(deterministic=True)
    tensors = [_tensor(weight, references.get(weight.name)) for weight in weights]
    inline = [0 if weight.name in references else weight.nbytes for weight in weights]
    bodies = [
        tensor + (header(TENSOR_RAW_DATA, length) if length else b"")
        for tensor, length in zip(tensors, inline, strict=True)
    ]
    fields = [header(GRAPH_INITIALIZER, len(body) + length) + body for body, length in zip(bodies, inline, strict=True)]
    total = len(graph_bytes) + sum(map(len, fields)) + sum(inline)
    with path.open("wb") as file:
        file.write(head.SerializeToString(deterministic=True))
        file.write(header(MODEL_GRAPH, total) + graph_bytes)
        for weight, field, length in zip(weights, fields, inline, strict=True):
            file.write(field)
            if length:
                _write_array(file, weight)
    return [*files, path]


def share_weights(files: Sequence[Path], name: str) -> None:
    """Moves the weights that all of the files store to one more file, so that the folder has these weights once.

    A runtime that loads one of the files reads its own weights and the shared weights.

    Args:
        files: ONNX files in one folder, each with its large weights in a second file.
        name: The name of the file of shared weights, before the digest of its content.
    """
    for data in _move_shared(files, name):  # Windows does not remove a mapped file, so the maps are closed by now.
        data.unlink()


def _move_shared(files: Sequence[Path], name: str) -> set[Path]:
    """Returns the files of weights that the files no longer refer to."""
    from onnx import load_model

    models = [load_model(file, load_external_data=False) for file in files]
    stored = [_external_weights(model, file) for model, file in zip(models, files, strict=True)]
    shared = set.intersection(*({weight.name for weight in weights.values()} for weights in stored))
    if not shared:
        return set()
    common = {weight.name: weight for weight in stored[0].values() if weight.name in shared}
    _, references = _write_data(list(common.values()), files[0].with_name(name))
    unused = set()
    for file, model, weights in zip(files, models, stored, strict=True):
        own = {weight.name: weight for weight in weights.values() if weight.name not in shared}
        places = references | _write_data(list(own.values()), file)[1]
        for tensor in model.graph.initializer:
            if tensor.name in weights:
                unused.add(file.with_name(_reference(tensor)["location"]))
                _refer(tensor, places[weights[tensor.name].name])
        file.write_bytes(model.SerializeToString(deterministic=True))
    return unused


def _external_weights(model: Any, file: Path) -> dict[str, Weight]:
    """Returns the weights of a model in a second file by their names. Each is called after its content."""
    weights = {}
    for tensor in model.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            place = _reference(tensor)
            data = file.with_name(place["location"])
            array = np.memmap(data, np.uint8, "r", int(place["offset"]), (int(place["length"]),))
            weights[tensor.name] = Weight(hashlib.blake2b(array.data, digest_size=16).hexdigest(), tensor.name, array)
    return weights


def _reference(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _refer(tensor: Any, reference: tuple[str, int, int]) -> None:
    """Refers a tensor to a part of a file, in place of its former reference."""
    tensor.data_location = tensor.EXTERNAL
    del tensor.external_data[:]
    for key, value in zip(("location", "offset", "length"), reference, strict=True):
        tensor.external_data.add(key=key, value=str(value))


def _write_data(weights: Sequence[Weight], model: Path) -> tuple[Path, dict[str, tuple[str, int, int]]]:
    places = list(_places(weights))
    unnamed = model.with_name(f"{model.name}.data")
    digest = hashlib.blake2b(digest_size=8)
    with unnamed.open("wb") as file:
        for weight, (offset, _) in zip(weights, places, strict=True):
            file.write(bytes(offset - file.tell()))
            digest.update(_write_array(file, weight))
    data = unnamed.rename(model.with_name(f"{model.name}.{digest.hexdigest()}.data"))
    return data, {w.name: (data.name, *place) for w, place in zip(weights, places, strict=True)}


def _places(weights: Sequence[Weight]) -> Iterator[tuple[int, int]]:
    offset = 0
    for weight in weights:
        offset = -(-offset // _ALIGNMENT) * _ALIGNMENT
        yield offset, weight.nbytes
        offset += weight.nbytes


def _write_array(file: BinaryIO, weight: Weight) -> memoryview:
    array = weight.read()
    if array.nbytes != weight.nbytes:
        raise ValueError(f"Weight {weight.name!r} changed its size while it was written.")
    content = array.reshape(-1).view(np.uint8).data
    file.write(content)
    return content


def _tensor(weight: Weight, reference: tuple[str, int, int] | None) -> bytes:
    from onnx import TensorProto, helper

    tensor = TensorProto(
        name=weight.name,
        dims=weight.shape,
        data_type=helper.np_dtype_to_tensor_dtype(weight.dtype),
    )
    if reference:
        _refer(tensor, reference)
    content: bytes = tensor.SerializeToString(deterministic=True)
    return content
