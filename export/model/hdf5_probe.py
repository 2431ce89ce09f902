"""The content of an HDF5 file, read once in a process of its own: HDF5 never returns from some damaged files."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from keras_pe.export.zip_files import check_ratio

_LEAST_SECONDS = 20.0
_BYTES_A_SECOND = 2**24  # less than any disk reads
# Prints the configuration, the version of Keras, the names at the top, and the bytes that the datasets claim.
_PROBE = """
import json, sys
import h5py

def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)

found = []
with h5py.File(sys.argv[1]) as file:
    file.visititems(lambda name, each: found.append(each) if isinstance(each, h5py.Dataset) else None)
    said = {name: text(file.attrs[name]) for name in ("model_config", "keras_version") if name in file.attrs}
    claimed = sum(each.nbytes for each in found)
    if claimed <= int(sys.argv[2]):
        file.visititems(lambda name, each: dict(each.attrs) and None)
        for each in found:
            each[()]
    print(json.dumps([said, [*file.attrs, *file], claimed]))
"""


class Hdf5Content(NamedTuple):
    """What an HDF5 file holds.

    Attributes:
        configuration: The JSON of a model, None if there is none.
        version: The version of Keras that saved the file; empty if the file does not say.
        names: The names of its attributes, groups and datasets at the top.
    """

    configuration: str | None
    version: str
    names: frozenset[str]


def probe_hdf5(path: Path) -> Hdf5Content:
    """Returns the content of an HDF5 file. Whatever reads the file afterwards ends as this did.

    Raises:
        ValueError: If the file is not whole, or its datasets claim far more than the file holds.
        OSError: If there is no such file.
    """
    status = path.stat()
    said, names, claimed = _probed(str(path.absolute()), status.st_size, status.st_mtime_ns)
    check_ratio(claimed, status.st_size)
    return Hdf5Content(said.get("model_config"), said.get("keras_version", ""), frozenset(names))


@functools.lru_cache(maxsize=4)
def _probed(path: str, size: int, changed: int) -> Any:
    """Returns what the subprocess prints; `changed` tells one content of a path from another."""
    seconds = _LEAST_SECONDS + size / _BYTES_A_SECOND
    command = [sys.executable, "-P", "-c", _PROBE, path, str(100 * max(size, 2**27))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(f"HDF5 does not return from it within {seconds:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ValueError(lines[-1].partition(": ")[2] or lines[-1] if lines else "HDF5 crashes on it")
    return json.loads(done.stdout)
