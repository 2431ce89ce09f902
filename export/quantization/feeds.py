"""Files with the inputs of one batch."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays


def write_feed(path: Path, inputs: Mapping[str, Array]) -> None:
    """Writes the inputs of a batch to an `.npz` file."""
    texts = {name: array.astype(str) if array.dtype.kind == "O" else array for name, array in inputs.items()}
    np.savez(path, **texts)  # type: ignore[arg-type]  # a name may not be "allow_pickle" in the stubs of NumPy


def read_feed(path: str | Path) -> Arrays:
    """Returns the arrays of a file of `write_feed`, texts as objects."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in arrays.items()}
