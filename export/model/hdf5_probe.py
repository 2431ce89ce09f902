"""The content of an HDF5 file, read in a subprocess: HDF5 hangs on some damaged files."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from keras_pe.export.artifacts.zip_files import check_ratio, plausible_bytes

_LEAST_SECONDS = 10.0
_BYTES_A_SECOND = 2**24  # every disk reads faster than this
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
    """The content of an HDF5 file.

    Attributes:
        configuration: The JSON of a model; None if the file contains no model.
        version: The version of Keras that saved the file; an empty text if the file does not record it.
        names: The names of the attributes, groups and datasets at the top level.
    """

    configuration: str | None
    version: str
    names: frozenset[str]


def probe_hdf5(path: Path) -> Hdf5Content:
    """Reads all of an HDF5 file, so that later readers of the file neither hang nor crash, and returns its content.

    Raises:
        ValueError: If the file is damaged, or its datasets claim far more than the size of the file.
        OSError: If the file does not exist.
    """
    status = path.stat()
    settings, names, claimed = _run_probe(str(path.absolute()), status.st_size, status.st_mtime_ns)
    check_ratio(claimed, status.st_size)
    return Hdf5Content(settings.get("model_config"), settings.get("keras_version", ""), frozenset(names))


@functools.lru_cache(maxsize=4)
def _run_probe(path: str, size: int, changed: int) -> Any:
    """Returns the output of the subprocess. `size` and `changed` are part of the cache key of a path."""
    seconds = _LEAST_SECONDS + size / _BYTES_A_SECOND
    command = [sys.executable, "-P", "-c", _PROBE, path, str(plausible_bytes(size))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(f"HDF5 does not return from it within {seconds:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ValueError(lines[-1].partition(": ")[2] or lines[-1] if lines else "HDF5 crashes on it")
    return json.loads(done.stdout)
