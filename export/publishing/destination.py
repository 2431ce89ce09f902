"""Checks the destination of an artifact, a report or a picture before a file is written there."""

import os
from fnmatch import fnmatch
from pathlib import Path

from keras_pe.argument_errors import ArgValueError, check_path, is_pattern, is_utf8
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.read_artifact import SIDECAR
from keras_pe.export.model.saved_file import KERAS_SUFFIXES

# Files that TensorFlow and this package write into the folder of a SavedModel.
_PARTS = ("*.pb", "variables/variables.*", "assets/*", SIDECAR.as_posix())


def check_destination(filepath: str | os.PathLike[str], format: Format) -> Path:
    """Returns the absolute path.

    Args:
        filepath: Path of the artifact.
        format: The artifact's format.

    Raises:
        ValueError: If the path has the suffix of another format. An unknown suffix, as in `encoder-1.5`, belongs to the
            name. Also if the path is not in UTF-8, or if TensorFlow would read it as a pattern.
        FileExistsError: If a link or something else stands there, or a SavedModel's folder holds files of other origin.
        NotADirectoryError: If a part of the path is a file.
        TypeError: If it is not a path.
    """
    check_path("filepath", filepath)
    path = Path(filepath).absolute()
    if not is_utf8(path):
        raise ArgValueError("filepath", f"must be in UTF-8. Received: {str(path)!r}. Choose another name or folder.")
    if format is not Format.ONNX and is_pattern(path):
        raise ArgValueError(
            "filepath",
            r"must have none of the characters * ? [ \, since TensorFlow reads such a path as a pattern. "
            f"Received: {str(path)!r}. Choose another name or folder.",
        )
    if named := _named_format(path, format):
        right = f"a name that ends in {format.suffix}" if format.suffix else "the name of a folder"
        raise ArgValueError(
            "filepath",
            f"must not end like a file of another format than {format.value!r}. Received: {str(path)!r}, "
            f"a name of {named} files. Choose {right}, or export the other format.",
        )
    for parent in path.parents:
        if parent.exists():
            if not parent.is_dir():
                raise NotADirectoryError(
                    f"`filepath` must be in a folder. Received: {str(path)!r}, where {parent} is a file."
                )
            break
    if path.is_symlink():
        raise FileExistsError(
            f"`filepath` must not be a link, because the artifact would replace the link. Received: {str(path)!r}, a "
            f"link to {os.path.realpath(path)}. Pass this path, or remove the link."
        )
    if path.exists() and not _is_replaceable(path, format):
        raise FileExistsError(
            f"`filepath` must be unused, or an artifact of the format {format.value!r} to replace. Received: "
            f"{str(path)!r}, which is neither. Move it away, or choose another name."
        )
    if path.is_dir() and (foreign := _foreign(path)):
        raise FileExistsError(
            f"`filepath` must be unused, or a folder with a SavedModel alone, which is replaced as a whole. Received: "
            f"{str(path)!r}, which also has {', '.join(map(repr, foreign))}. Move these away, or choose another name."
        )
    return path


def _named_format(path: Path, format: Format) -> str | None:
    """Returns the other format whose files are called so."""
    named = Format.from_suffix(path)
    if named not in (None, format):
        return named.label
    return "Keras" if path.suffix in KERAS_SUFFIXES else None


def _is_replaceable(path: Path, format: Format) -> bool:
    is_empty = path.is_dir() and not any(path.iterdir())
    return Format.detect(path) is format or (format is Format.SAVED_MODEL and is_empty)


def _foreign(folder: Path) -> list[str]:
    """Returns what is in a SavedModel's folder and was not written with it."""
    entries = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return sorted(str(path) for path in entries if not any(fnmatch(path.as_posix(), part) for part in _PARTS))


def check_file_path(path: Path, what: str) -> None:
    """Raises OSError if a file that replaces the path would remove a folder, a pipe or a device, or cannot be there.

    Args:
        path: The path of a new file. A link counts as the path that it leads to.
        what: Subject of the error, such as "A report".
    """
    if path.is_dir():
        raise IsADirectoryError(f"{what} must be a file. Received: {path}, which is a folder.")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{what} must be a file. Received: {path}, which is a pipe or a device.")
