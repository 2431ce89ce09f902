"""Tells a file that holds no Keras model before Keras, which takes seconds to start, is asked to load it."""

import zipfile
from pathlib import Path

from keras_pe.cli.errors import CouldNotBeTriedError

_SUFFIXES = (".keras", ".h5", ".hdf5")  # those that Keras loads


def check_model_file(path: Path) -> None:
    """Raises unless a file can be one that Keras saved a model to."""
    if path.suffix not in _SUFFIXES:
        raise CouldNotBeTriedError(f"MODEL must be a .keras file. Received: {path}.")
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):
        raise CouldNotBeTriedError(f"{path} could not be loaded: it is no .keras file, or not a whole one.")
