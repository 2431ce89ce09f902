"""An artifact read back from disk, whatever its format, and the files that it consists of."""

import os
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
