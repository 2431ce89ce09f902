"""An artifact read back from disk, whatever its format, and the files that it consists of."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from keras_pe.export.artifacts import litert_file, onnx_file, saved_model_folder
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.onnx_model import read_without_weights


def read_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Returns what an exporter returned, from the file or folder alone. Nothing of it is run.

    An artifact of another exporter is read too. Then the names of dynamic dimensions may say nothing.

    Args:
        path: An ONNX or LiteRT file, or the folder of a SavedModel. Its content tells which, not its name.

    Returns:
        The artifact, with `seconds=0.0` because nothing was exported.

    Raises:
        FileNotFoundError: If there is nothing at `path`.
        ValueError: If it is none of these, or cannot be read.
        ImportError: If the package that knows the format is missing: onnx for ONNX, ai-edge-litert for LiteRT,
            tensorflow for the SavedModel of another exporter.
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"There is no artifact at {str(place)!r}.")
    readers = {
        Format.ONNX: onnx_file.read,
        Format.SAVED_MODEL: saved_model_folder.read,
        Format.LITERT: litert_file.read,
    }
    # What is not recognized is read as what its name says, for an error that tells what is wrong with it.
    format = Format.detect(place) or (Format.of_suffix(place) if place.is_file() else None)
    if format is None:
        what = "a folder without saved_model.pb" if place.is_dir() else "a file of another format"
        raise ValueError(
            "`path` must be an artifact: an ONNX file, a LiteRT file or the folder of a SavedModel. "
            f"Received: {str(place)!r}, {what}."
        )
    try:
        return readers[format](place)
    except ValueError as error:
        raise ValueError(f"`path` must be an artifact. Received: {str(place)!r}, which {error}") from error


def artifact_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Returns the files that an artifact consists of, those outside an ONNX file that hold its weights among them.

    Raises:
        ValueError: If a file with weights must not be read: ONNX allows none outside the model's folder.
    """
    place = Path(path)
    if place.is_dir():
        return tuple(sorted(file for file in place.rglob("*") if file.is_file()))
    if Format.detect(place) is not Format.ONNX:
        return (place,)
    return (place, *onnx_file.external_files(read_without_weights(place), place).values())


def hash_files(artifact: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of an artifact, by its path from the artifact's folder.

    Raises:
        ValueError, OSError: If the files cannot be told or read.
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
