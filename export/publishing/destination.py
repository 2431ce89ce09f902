"""What may be overwritten: an artifact of the same format, and nothing else."""

from pathlib import Path

_PROTOBUF_IR_VERSION = b"\x08"  # the first field that every writer of ONNX puts first


def check_destination(path: Path, kind: str) -> Path:
    """Returns the absolute path.

    Args:
        path: Where the artifact will stand.
        kind: "onnx", "tf_saved_model" or "litert".

    Raises:
        FileExistsError: If something else stands there.
        NotADirectoryError: If a part of the path is a file.
    """
    path = path.absolute()
    for parent in path.parents:
        if parent.exists():
            if not parent.is_dir():
                raise NotADirectoryError(
                    f"`filepath` must be in a folder. Received: {str(path)!r}, where {parent} is a file."
                )
            break
    if (path.exists() or path.is_symlink()) and not _is_artifact(path, kind):
        raise FileExistsError(
            f"`filepath` must be free or an artifact of the format {kind!r}, which is replaced. Received: "
            f"{str(path)!r}, which is something else. Move it away, or choose another name."
        )
    return path


def _is_artifact(path: Path, kind: str) -> bool:
    if kind == "tf_saved_model":
        return (
            path.is_dir() and not path.is_symlink() and ((path / "saved_model.pb").is_file() or not any(path.iterdir()))
        )
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(8)
    return head[:1] == _PROTOBUF_IR_VERSION if kind == "onnx" else head[4:8] == b"TFL3"
