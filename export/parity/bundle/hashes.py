"""What an artifact was made of: the SHA-256 of each of its files."""

import hashlib
from pathlib import Path


def hash_files(artifact: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of an artifact, by its name in the folder, or beside the file."""
    if artifact.is_dir():
        return {str(f.relative_to(artifact)): _sha256(f) for f in sorted(artifact.rglob("*")) if f.is_file()}
    names = [artifact.name, *(_external_data(artifact) if artifact.suffix == ".onnx" else ())]
    return {name: _sha256(artifact.with_name(name)) for name in names if artifact.with_name(name).is_file()}


def _external_data(artifact: Path) -> list[str]:
    """Returns the names of the files that hold the weights of an ONNX file; none where it cannot be read."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load(artifact, load_external_data=False).graph
    except DecodeError:
        return []
    return sorted({e.value for tensor in graph.initializer for e in tensor.external_data if e.key == "location"})


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
