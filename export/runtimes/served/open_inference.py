"""A model behind the Open Inference Protocol, version 2, over HTTP.

KServe, Triton, OpenVINO Model Server and MLServer speak it. Arrays go as JSON, the one form that all of them take: a
float32 is written with as many digits as bring the same float32 back.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export import TensorInfo
from keras_pe.export.runtimes import Array, Arrays
from keras_pe.export.runtimes.served.addresses import exchange

_DTYPES = {
    "BOOL": "bool",
    "BYTES": "string",
    **{f"{sign.upper()}INT{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_DATATYPES = {dtype: datatype for datatype, dtype in _DTYPES.items()}


class OpenInferenceModel:
    """A model at an address such as `http://host:8000/v2/models/NAME`, or `.../NAME/versions/2`."""

    def __init__(self, path: str | None, address: str) -> None:
        """Asks the server what it serves.

        Args:
            path: Of no use: the server has its own.
            address: Of the model.
        """
        self._address = address.rstrip("/")
        about = exchange(self._address)
        self.inputs = tuple(_info(entry) for entry in about.get("inputs") or [])
        server = exchange(self._address.partition("/v2/")[0] + "/v2")
        model = [about.get("platform"), *(f"version {version}" for version in (about.get("versions") or [])[-1:])]
        served = ", ".join(filter(None, model))
        self.version = f"{server.get('name') or 'server'} {server.get('version') or '?'}" + (served and f" ({served})")

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        question = {"inputs": [_tensor(name, array) for name, array in inputs.items()]}
        answer = exchange(f"{self._address}/infer", question)
        return {entry["name"]: _array(entry) for entry in answer["outputs"]}


def _info(entry: Mapping[str, Any]) -> TensorInfo:
    name = entry["name"]
    shape = tuple(f"{name}_{i}" if dim < 0 else int(dim) for i, dim in enumerate(entry["shape"]))
    return TensorInfo(name, shape, _DTYPES.get(entry["datatype"], entry["datatype"]))


def _tensor(name: str, array: Array) -> dict[str, Any]:
    dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
    if dtype not in _DATATYPES:
        raise ValueError(f"The protocol knows no arrays of type {dtype}. Received: {name!r}.")
    data = array.ravel().tolist()
    return {"name": name, "shape": list(array.shape), "datatype": _DATATYPES[dtype], "data": data}


def _array(entry: Mapping[str, Any]) -> Array:
    dtype = _DTYPES.get(entry["datatype"])
    if dtype is None or "data" not in entry:
        raise ValueError(f"Output {entry['name']!r} of type {entry['datatype']} cannot be read from JSON.")
    return np.array(entry["data"], dtype=object if dtype == "string" else dtype).reshape(entry["shape"])
