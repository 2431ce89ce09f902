"""What may be overwritten: an artifact of the same format, and nothing else."""

import os
from fnmatch import fnmatch
from pathlib import Path

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.saved_model_folder import SIDECAR
from keras_pe.export.model.saved_file import is_saved_model

# What TensorFlow and this package write into the folder of a SavedModel.
_PARTS = ("*.pb", "variables/variables.*", "assets/*", SIDECAR.as_posix())


def check_destination(filepath: str | os.PathLike[str], format: Format) -> Path:
    """Returns the absolute path.

    Args:
        filepath: Where the artifact will stand.
        format: The artifact's format.

    Raises:
        ValueError: If the path ends like a file of another format. What ends like none, `encoder-1.5`, is a name.
        FileExistsError: If something else stands there, or a SavedModel's folder holds files of other origin as well.
        NotADirectoryError: If a part of the path is a file.
    """
    path = Path(filepath).absolute()
    if named := _named_format(path, format):
        right = f"a name that ends in {format.suffix}" if format.suffix else "the name of a folder"
        raise ValueError(
            f"`filepath` must not end like a file of another format than {format.value!r}. Received: {str(path)!r}, "
            f"which is how {named} files are called. Choose {right}, or export the other format."
        )
    for parent in path.parents:
        if parent.exists():
            if not parent.is_dir():
                raise NotADirectoryError(
                    f"`filepath` must be in a folder. Received: {str(path)!r}, where {parent} is a file."
                )
            break
    if (path.exists() or path.is_symlink()) and not _is_replaceable(path, format):
        raise FileExistsError(
            f"`filepath` must be free or an artifact of the format {format.value!r}, which is replaced. Received: "
            f"{str(path)!r}, which is something else. Move it away, or choose another name."
        )
    if path.is_dir() and (foreign := _foreign(path)):
        raise FileExistsError(
            f"`filepath` must be free or the folder of a SavedModel alone, which is replaced as a whole. Received: "
            f"{str(path)!r}, which also holds {', '.join(map(repr, foreign))}. Move that away, or choose another name."
        )
    return path


def _named_format(path: Path, format: Format) -> str | None:
    """Returns the other format whose files are called so."""
    named = Format.of_suffix(path)
    if named not in (None, format):
        return named.label
    return "Keras" if is_saved_model(path) else None


def _is_replaceable(path: Path, format: Format) -> bool:
    if format is Format.SAVED_MODEL and path.is_symlink():  # the link would be replaced, not the folder
        return False
    is_empty = path.is_dir() and not any(path.iterdir())
    return Format.detect(path) is format or (format is Format.SAVED_MODEL and is_empty)


def _foreign(folder: Path) -> list[str]:
    """Returns what is in a SavedModel's folder and was not written with it."""
    entries = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return sorted(str(path) for path in entries if not any(fnmatch(path.as_posix(), part) for part in _PARTS))
