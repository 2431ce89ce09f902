"""Reads and writes one `.npz` file of JSON values and arrays. Equal content in equal order gives equal bytes.

Each array is a member named by its path in the content, such as `failures/0/actual/y`. `manifest.json` has the rest.
"""

import io
import json
import zipfile
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from keras_pe.export.artifacts.zip_files import check_entries, read_text
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import as_dtype, as_texts

MANIFEST = "manifest.json"
_NULS = "trailing_nuls"

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a constant time of writing, so that equal content gives equal bytes


def write_archive(
    path: Path | IO[bytes], content: Mapping[str, Any], script: str = "", files: Mapping[str, bytes] | None = None
) -> None:
    """Writes mappings, sequences, plain values and arrays of any type.

    Args:
        path: The file, or a stream.
        content: The values, by name.
        script: Python code that `python FILE` runs.
        files: Other members by name, which `read_archive` does not return.
    """
    arrays: dict[str, Array] = {}
    plain = json.dumps(_without_arrays(content, "", arrays), separators=(",", ":"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_member(MANIFEST), plain)
        if script:
            file.writestr(_member("__main__.py"), script)
        for name, member in (files or {}).items():
            file.writestr(_member(name), member)
        for name, array in arrays.items():
            with file.open(_member(f"{name}.npy"), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, _storable(array), allow_pickle=False)


def read_archive(path: Path | IO[bytes]) -> dict[str, Any]:
    """Returns the content of an archive; sequences are lists.

    Raises:
        ValueError: If the file is damaged or is not an archive.
    """
    try:
        with zipfile.ZipFile(path) as file:
            check_entries(file)

            def with_array(found: dict[str, Any]) -> Any:
                if found.keys() - {_NULS} != {"array", "dtype"} or not isinstance(found["dtype"], str):
                    return found
                stored = np.lib.format.read_array(io.BytesIO(file.read(f"{found['array']}.npy")), allow_pickle=False)
                return _restore(stored, found["dtype"], found.get(_NULS, ()))

            read: dict[str, Any] = json.loads(read_text(file, MANIFEST), object_hook=with_array)
            return read
    except Exception as error:  # zlib.error, NotImplementedError, and whatever else a damaged file raises
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _without_arrays(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    """Returns a value in which a reference replaces each array; adds the arrays to `arrays`."""
    if isinstance(value, np.ndarray | np.generic):
        place = _member_name(place, arrays)
        arrays[place] = np.asarray(value)
        return {"array": place, "dtype": value.dtype.name, **_trailing_nuls(arrays[place])}
    if isinstance(value, Mapping):
        return {str(key): _without_arrays(each, f"{place}/{key}".lstrip("/"), arrays) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(each, f"{place}/{number}", arrays) for number, each in enumerate(value)]
    return value


def _member_name(place: str, taken: Container[str]) -> str:
    """Returns a free name for a member. Zip files cut a name at NUL and lack lone surrogates, so both become codes."""
    name = place.encode(errors="backslashreplace").decode().replace("\0", r"\x00")
    while name in taken:
        name += "_"
    return name


def _storable(array: Array) -> Array:
    """Returns an array of a type that a NumPy file can store: objects as bytes or texts, bfloat16 as integers."""
    if array.dtype.kind == "O":
        return array.astype("S") if all(isinstance(text, bytes) for text in array.flat) else as_texts(array).astype("U")
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _trailing_nuls(array: Array) -> dict[str, list[list[int]]]:
    """Returns the count of NULs at the end of each text, by its index. NumPy's text types drop such NULs."""
    if array.dtype.kind != "O":
        return {}
    lengths = [len(text) - len(text.rstrip(b"\0" if isinstance(text, bytes) else "\0")) for text in array.flat]
    counts = [[place, length] for place, length in enumerate(lengths) if length]
    return {_NULS: counts} if counts else {}


def _restore(array: Array, dtype: str, nuls: Iterable[tuple[int, int]]) -> Array:
    if dtype == "object":
        texts = array.astype(object)
        for place, length in nuls:
            texts.flat[place] += (b"\0" if array.dtype.kind == "S" else "\0") * length
        return texts
    return array.view(as_dtype(dtype)) if dtype == "bfloat16" else array


def _member(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
