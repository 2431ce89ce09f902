"""Reads a table of encodings from an .npy file, for the commands that take one."""

from pathlib import Path
from typing import Any

from keras_pe.cli.errors import CouldNotBeTriedError


def read_table(path: Path) -> Any:
    """Returns the array of an .npy file, without running anything that is pickled in it."""
    import numpy as np

    try:
        table = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CouldNotBeTriedError(f"{path} is no .npy file of numbers, or not a whole one.") from error
    if isinstance(table, np.ndarray):
        return table
    with table:
        raise CouldNotBeTriedError(f"{path} holds several arrays ({', '.join(table)}): save the one as an .npy file.")
