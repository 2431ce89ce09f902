"""An artifact read back from disk, whatever its format, and the files that it consists of.

`litert_file` knows the format of LiteRT's files.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.argument_errors import ArgValueError, check_path
from keras_pe.export.artifacts.artifact import NOTES_KEY, Artifact, Format, TensorInfo, description_from_json
from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.artifacts.litert_file import SIGNATURE, read_litert
from keras_pe.export.artifacts.onnx_model import (
    WireFormatError,
    external_files,
    fields,
    read_slice,
    read_without_weights,
    weight_files,
)
from keras_pe.export.dependencies import require

SIDECAR = Path("assets.extra") / "keras_pe.json"  # TensorFlow leaves this folder of a SavedModel to its users

_META_GRAPHS = 2  # field number in TensorFlow's message SavedModel


def read_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Returns the artifact in a file or folder, without running it.

    The artifact may be from another exporter. The names of its dynamic dimensions are then arbitrary.

    Args:
        path: An ONNX or LiteRT file, or the folder of a SavedModel. The content determines the format.

    Returns:
        The artifact, with `seconds=0.0` because nothing was exported.

    Raises:
        FileNotFoundError: If there is nothing at `path`.
        ValueError: If `path` has another format, or cannot be read.
        TypeError: If `path` is not a path.
        ImportError: If the package that reads the format is missing: onnx for ONNX, ai-edge-litert for LiteRT,
            tensorflow for the SavedModel of another exporter.
    """
    check_path("path", path)
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"No artifact found at {str(place)!r}.")
    readers = {
        Format.ONNX: _read_onnx,
        Format.SAVED_MODEL: _read_saved_model,
        Format.LITERT: read_litert,
    }
    # A file of unknown content is read as the format of its suffix, so that the error names the fault in it.
    format = Format.detect(place) or (Format.from_suffix(place) if place.is_file() else None)
    if format is None:
        what = "a folder without saved_model.pb" if place.is_dir() else "a file of another format"
        what = "a model of Keras, to be exported first" if place.suffix in (".keras", ".h5", ".hdf5") else what
        files = sorted(each.name for each in place.glob("*") if Format.from_suffix(each)) if place.is_dir() else []
        way_out = f" Name one of the files in it: {', '.join(files)}." if files else ""
        raise ArgValueError(
            "path",
            "must be an artifact: an ONNX file, a LiteRT file or the folder of a SavedModel. "
            f"Received: {str(place)!r}, {what}.{way_out}",
        )
    try:
        return readers[format](place)
    except ValueError as error:
        raise ArgValueError("path", f"must be an artifact. Received: {str(place)!r}, which {error}") from error


def artifact_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Returns the files of an artifact, also files outside an ONNX file that hold its weights.

    Raises:
        ValueError: If a file with weights must not be read: ONNX allows none outside the model's folder.
    """
    place = Path(path)
    if place.is_dir():
        return tuple(sorted(file for file in place.rglob("*") if file.is_file()))
    if Format.detect(place) is not Format.ONNX:
        return (place,)
    return (place, *weight_files(place).values())


def hash_files(artifact: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of an artifact, by its path from the artifact's folder.

    Raises:
        ValueError, OSError: If the files cannot be found or read.
    """
    home = artifact if artifact.is_dir() else artifact.parent
    return {str(file.relative_to(home)): _sha256(file) for file in artifact_files(artifact) if file.is_file()}


def hash_artifacts(artifacts: Iterable[Path]) -> dict[str, str]:
    """Returns the SHA-256 of each file of some artifacts, by its path; those that cannot be read are left out."""
    found: dict[str, str] = {}
    for artifact in dict.fromkeys(artifacts):
        home = artifact if artifact.is_dir() else artifact.parent
        try:
            found |= {str(home / name): value for name, value in hash_files(artifact).items()}
        except Exception:  # whatever a file that was cut or changed makes of the readers; its runtimes say so
            continue
    return found


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_onnx(path: Path) -> Artifact:
    """Returns the inputs and outputs of the file, and the metadata of its exporter. Needs no TensorFlow.

    Raises:
        ValueError: With the end of a sentence about the file, if it cannot be read.
    """
    require("read_artifact", "onnx")
    model = read_without_weights(path)
    if not model.graph.output:
        raise ValueError("is an ONNX file without outputs.")
    metadata = {_text(entry.key): _text(entry.value) for entry in model.metadata_props}
    weights = {tensor.name for tensor in model.graph.initializer}
    files = {path, *external_files(model, path).values()}
    return Artifact(
        format=Format.ONNX,
        path=path,
        inputs=tuple(_onnx_tensor(value) for value in model.graph.input if value.name not in weights),
        outputs=tuple(_onnx_tensor(value) for value in model.graph.output),
        nbytes=sum(file.stat().st_size for file in files if file.exists()),
        seconds=0.0,
        opset_version=next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), None),
        notes=_notes(metadata),
        metadata=metadata,
    )


def _text(value: str | bytes) -> str:
    """Returns a text of a protobuf message, which protobuf returns as bytes if they are not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _onnx_tensor(value: Any) -> TensorInfo:
    """Returns the name, shape and element type of an `onnx.ValueInfoProto`.

    Raises:
        ValueError: If it is a sequence or a map instead of a tensor.
    """
    from onnx import helper

    tensor = value.type.tensor_type
    if not tensor.elem_type:
        raise ValueError(f"must take and return only tensors. Received: {value.name!r}.")
    shape = (
        # Some exporters write -1 for a free size.
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else dim.dim_param or f"{value.name}_axis_{axis}"
        for axis, dim in enumerate(tensor.shape.dim)
    )
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        raise ValueError(f"has the unknown element type {tensor.elem_type} for {value.name!r}.") from None
    return TensorInfo(value.name, tuple(shape), "string" if dtype == np.dtype(object) else dtype.name)


def _notes(metadata: Mapping[str, str]) -> tuple[str, ...]:
    with contextlib.suppress(ValueError):  # Another program may write such a text.
        return read_record(metadata.get(NOTES_KEY, "[]"), lambda notes: tuple(map(str, notes)), "notes")
    return ()


def _read_saved_model(path: Path) -> Artifact:
    """Returns the inputs and outputs of the folder, and the metadata of its exporter. Loads no function.

    Raises:
        ValueError: With the end of a sentence about the folder, if it cannot be read.
    """
    nbytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if (path / SIDECAR).is_file():
        known = description_from_json((path / SIDECAR).read_text(encoding="utf-8", errors="replace"))
        return Artifact(Format.SAVED_MODEL, path, nbytes=nbytes, seconds=0.0, **known)
    require("read_artifact", "tensorflow")
    signatures = {key: served for graph in _meta_graphs(path) for key, served in graph.signature_def.items()}
    if SIGNATURE not in signatures:
        raise ValueError(f"must have the signature {SIGNATURE!r}, and has {sorted(signatures)}.")
    served = signatures[SIGNATURE]
    inputs, outputs = (
        tuple(_saved_tensor(name, tensors[name]) for name in sorted(tensors))  # a map of protobuf has no order
        for tensors in (served.inputs, served.outputs)
    )
    return Artifact(Format.SAVED_MODEL, path, inputs, outputs, nbytes, 0.0)


def _meta_graphs(path: Path) -> list[Any]:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    file = path / "saved_model.pb"
    try:
        with file.open("rb") as stream:
            return [
                tf.compat.v1.MetaGraphDef.FromString(read_slice(stream, content, stop))
                for number, _, _, content, stop in fields(stream, file.stat().st_size)
                if number == _META_GRAPHS
            ]
    except (DecodeError, WireFormatError) as error:
        raise ValueError("has a saved_model.pb that is not whole.") from error


def _saved_tensor(name: str, tensor: Any) -> TensorInfo:
    import tensorflow as tf

    dims = tensor.tensor_shape.dim
    shape = (f"{name}_axis_{axis}" if dim.size < 0 else int(dim.size) for axis, dim in enumerate(dims))
    return TensorInfo(name, tuple(shape), tf.as_dtype(tensor.dtype).name)
