"""One input of the sweep, and the files that hold a user's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_pe.export.parity.results import Array
from keras_pe.export.runtimes.runtime import Arrays

_INPUT, _OUTPUT = "inputs/", "outputs/"


@dataclass(frozen=True)
class Case:
    """One set of inputs.

    Attributes:
        name: Unique in a check.
        inputs: Every input by name.
        why: What it is there to find.
        again: The name of the case whose inputs it repeats.
    """

    name: str
    inputs: Mapping[str, Array]
    why: str
    again: str | None = None


def read_cases(path: Path) -> tuple[Case, Arrays]:
    """Reads one case from an `.npz` file.

    Arrays are named after the inputs, or `inputs/NAME`; the outputs that were expected of them are `outputs/NAME`.

    Returns:
        The case, and the outputs, empty where there are none.

    Raises:
        ValueError: If the file holds no input.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    outputs = {name.removeprefix(_OUTPUT): array for name, array in arrays.items() if name.startswith(_OUTPUT)}
    inputs = {name.removeprefix(_INPUT): array for name, array in arrays.items() if not name.startswith(_OUTPUT)}
    if not inputs:
        raise ValueError(f"`inputs` must be .npz files with an array for each input. Received: {path} without one.")
    return Case(path.stem, inputs, f"from {path}"), outputs


def write_case(path: Path, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
    """Writes one case, with the outputs expected of it, as `read_cases` reads it."""
    arrays = {_INPUT + name: array for name, array in inputs.items()}
    arrays |= {_OUTPUT + name: array for name, array in outputs.items()}
    np.savez(path, allow_pickle=False, **arrays)
