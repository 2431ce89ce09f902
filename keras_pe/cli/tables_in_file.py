"""Reads tables of positions from files: an .npy file, the weights of a model, or the arrays of an archive."""

import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_pe.cli.exit_codes import CouldNotBeTriedError
from keras_pe.display import shown_bytes
from keras_pe.export.artifacts.zip_files import MAX_TEXT, check_array, check_entries, check_ratio
from keras_pe.export.model.hdf5_probe import probe_hdf5

Named = Iterator[tuple[str, Any]]

_LEAST_ROWS, _LEAST_CHANNELS = 4, 2  # limits of `identify`
_OPTIMIZER = re.compile("optimizer[a-z_]*[/.]")  # Its moments have the shapes of weights.
# The types of the format that NumPy has too; bfloat16 is widened by hand.
_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I8": "i1"}


def read_table(path: Path) -> Any:
    """Returns the array of an .npy file, without running anything that is pickled in it."""
    import numpy as np

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            names = ", ".join(name.removesuffix(".npy") for name in file.namelist())
        raise CouldNotBeTriedError(
            f"{path} holds several arrays ({names}): save the table of positions as an .npy file."
        )
    try:
        check_array(path)
        table = np.load(path, allow_pickle=False)
        if table.dtype.kind not in "biuf":
            raise ValueError(f"its values are of type {table.dtype}")
        return table
    except Exception as error:  # whatever a damaged file raises
        raise CouldNotBeTriedError(f"{path} is not an .npy file of numbers, or not a whole one ({error}).") from error


def tables_in(path: Path) -> dict[str, Any]:
    """Returns the matrices of floating-point numbers in a file by their names; the one of an .npy file has none.

    Raises:
        CouldNotBeTriedError: If the file cannot be read, or holds none.
    """
    if path.suffix not in (*READERS, ".npy"):
        raise CouldNotBeTriedError(f"FILE must end in one of: {', '.join((*READERS, '.npy'))}. Received: {path}.")
    if path.suffix not in READERS:
        return {"": read_table(path)}
    try:
        found = {name: _matrix(array) for name, array in READERS[path.suffix](path) if not _OPTIMIZER.match(name)}
    except (ImportError, CouldNotBeTriedError):
        raise
    except Exception as error:  # whatever a damaged file makes its reader raise
        raise CouldNotBeTriedError(f"{path} could not be read: {type(error).__name__}: {error}") from error
    tables = {name: table for name, table in found.items() if table is not None}
    if not tables:
        raise CouldNotBeTriedError(
            f"{path} holds no matrix of at least {_LEAST_ROWS} rows and {_LEAST_CHANNELS} columns, as a table of "
            f"positions has. Found: {', '.join(found) or 'nothing'}."
        )
    return tables


def _matrix(array: Any) -> Any:
    """Returns an array as `(length, channels)`, None unless it holds floating-point numbers or int8."""
    import numpy as np

    from keras_pe.conventions.identification.encoding_table import as_matrix

    array = as_matrix(np.asarray(array))
    large = array.ndim == 2 and array.shape[0] >= _LEAST_ROWS and array.shape[1] >= _LEAST_CHANNELS
    # Fewer rows than that count in a table of zeros.
    usable = large and (array.dtype.kind == "f" or array.dtype == np.int8) and np.isfinite(array).all()
    return array if usable and np.count_nonzero(array.any(axis=1)) >= _LEAST_ROWS else None


def _npz(path: Path) -> Named:
    import numpy as np

    with zipfile.ZipFile(path) as file:
        check_entries(file)
    with np.load(path, allow_pickle=False) as arrays:
        yield from arrays.items()


def _safetensors(path: Path) -> Named:
    import numpy as np

    with path.open("rb") as file:
        length, size = int.from_bytes(file.read(8), "little"), path.stat().st_size
        if length > min(size, MAX_TEXT):
            raise ValueError(f"its header claims {shown_bytes(length)}, and the file has {shown_bytes(size)}")
        header = json.loads(file.read(length))
        start = file.tell()
        for name, about in header.items():
            dtype = about.get("dtype")
            if dtype not in (*_SAFETENSORS, "BF16"):
                continue
            low, high = about["data_offsets"]
            if not 0 <= low <= high <= size:
                raise ValueError(f"{name} claims the bytes from {low:,} to {high:,}, and the file has {size:,}")
            file.seek(start + low)
            content = file.read(high - low)
            if dtype == "BF16":
                values = (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
            else:
                values = np.frombuffer(content, _SAFETENSORS[dtype])
            yield name, values.reshape(about["shape"])


def _onnx(path: Path) -> Named:
    import onnx

    graph = onnx.load(path).graph
    for tensor in graph.initializer:
        yield tensor.name, onnx.numpy_helper.to_array(tensor)
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                yield node.output[0], onnx.numpy_helper.to_array(attribute.t)


def _keras(path: Path) -> Named:
    with zipfile.ZipFile(path) as file:
        check_entries(file)
        content = file.read("model.weights.h5")
    yield from _datasets(io.BytesIO(content), len(content))


def _h5(path: Path) -> Named:
    probe_hdf5(path)
    yield from _datasets(path, path.stat().st_size)


def _datasets(file: Path | io.BytesIO, size: int) -> Named:
    """Yields the datasets of an HDF5 file of `size` bytes."""
    import h5py

    found: dict[str, Any] = {}

    def keep(name: str, each: Any) -> None:
        if isinstance(each, h5py.Dataset):
            found[name] = each

    with h5py.File(file) as opened:
        opened.visititems(keep)
        check_ratio(sum(each.nbytes for each in found.values()), size)
        for name, each in found.items():
            yield name, each[()]


def _torch(path: Path) -> Named:
    try:
        import torch
    except ImportError as error:
        raise CouldNotBeTriedError(
            f"{path} needs the package 'torch' to be read. Install it with: pip install torch. Or save the "
            "weights in another format, where torch is installed: safetensors.torch.save_file(model.state_dict(), "
            '"weights.safetensors").'
        ) from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CouldNotBeTriedError(
            f"{path} holds objects other than tensors, which are not loaded because loading can run code. Save the "
            'tensors alone, in the program that wrote the file: torch.save(model.state_dict(), "weights.pt").'
        ) from error
    nested = [("", content)]
    for name, each in nested:
        if isinstance(each, torch.Tensor):
            yield name, (each.float() if each.dtype == torch.bfloat16 else each).detach().numpy()
        elif isinstance(each, Mapping | list | tuple):
            items = each.items() if isinstance(each, Mapping) else enumerate(each)
            nested += [(f"{name}.{key}" if name else str(key), value) for key, value in items]


READERS: Mapping[str, Callable[[Path], Named]] = {
    ".h5": _h5,
    ".hdf5": _h5,
    ".keras": _keras,
    ".npz": _npz,
    ".onnx": _onnx,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _safetensors,
}
