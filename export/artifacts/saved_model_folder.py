"""A SavedModel's folder: its description beside it, or else its signature, from the file alone."""

from pathlib import Path
from typing import Any

from keras_pe.export.artifacts import description
from keras_pe.export.artifacts.artifact import Artifact, TensorInfo
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.wire_format import WireFormatError, fields
from keras_pe.export.dependencies import require

SIDECAR = Path("assets.extra") / "keras_pe.json"  # TensorFlow leaves this folder of a SavedModel to its users
SIGNATURE = "serving_default"

_META_GRAPHS = 2  # field number in TensorFlow's message SavedModel


def read(path: Path) -> Artifact:
    """Returns what the folder takes and returns, and what its exporter said about it. No function of it is loaded.

    Raises:
        ValueError: With the end of a sentence about the folder, if it cannot be read.
    """
    nbytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if (path / SIDECAR).is_file():
        known = description.from_json((path / SIDECAR).read_text())
        return Artifact(Format.SAVED_MODEL, path, nbytes=nbytes, seconds=0.0, **known)
    require("read_artifact", "tensorflow")
    signatures = {key: served for graph in _meta_graphs(path) for key, served in graph.signature_def.items()}
    if SIGNATURE not in signatures:
        raise ValueError(f"must have the signature {SIGNATURE!r}, and has {sorted(signatures)}.")
    served = signatures[SIGNATURE]
    inputs, outputs = (
        tuple(_tensor_info(name, tensors[name]) for name in sorted(tensors))  # a map of protobuf has no order
        for tensors in (served.inputs, served.outputs)
    )
    return Artifact(Format.SAVED_MODEL, path, inputs, outputs, nbytes, 0.0)


def _meta_graphs(path: Path) -> list[Any]:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    file = path / "saved_model.pb"
    try:
        with file.open("rb") as stream:
            graphs = [
                (content, stop)
                for number, _, content, stop in fields(stream, file.stat().st_size)
                if number == _META_GRAPHS
            ]
        content = file.read_bytes()
        return [tf.compat.v1.MetaGraphDef.FromString(content[start:stop]) for start, stop in graphs]
    except (DecodeError, WireFormatError) as error:
        raise ValueError("has a saved_model.pb that is not whole.") from error


def _tensor_info(name: str, tensor: Any) -> TensorInfo:
    import tensorflow as tf

    dims = tensor.tensor_shape.dim
    shape = (f"{name}_axis_{axis}" if dim.size < 0 else int(dim.size) for axis, dim in enumerate(dims))
    return TensorInfo(name, tuple(shape), tf.as_dtype(tensor.dtype).name)
