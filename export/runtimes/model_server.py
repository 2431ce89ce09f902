"""Runs a model at an address: Open Inference Protocol version 2, or the REST interface of TensorFlow Serving.

KServe, Triton, OpenVINO Model Server and MLServer speak the first. Arrays go as JSON, the one form that all of them
take: a float32 is written with as many digits as bring the same float32 back.
"""

import functools
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.runtimes import Array, Arrays, RuntimeName, RuntimeSpec, as_dtype, tensor_info

ANSWER_LIMIT = 2**30  # bytes
_SAID_LIMIT = 500  # characters of what a server says of an error

# The class of each protocol, and what stands behind the address of a model where it describes itself.
_PROTOCOLS = {"v2": ("OpenInferenceModel", ""), "v1": ("TensorFlowServingModel", "/metadata")}
_ADDRESS = re.compile(r"https?://[^/\s]+(?:/[^/\s]+)*?/(v[12])/models/[^/\s:]+(?:/versions/[^/\s:]+)?/?")
_PATIENCE = 10.0  # seconds for a server's first word


def exchange(address: str, question: Any = None, timeout: float = 600.0) -> Any:
    """Returns what a server answers: to a GET, or with a question to a POST.

    Args:
        address: Address of the server.
        question: Body of the request.
        timeout: Seconds without a byte.

    Raises:
        ConnectionError: If no server answers there.
        ValueError: If it answers with an error, with something that is not JSON, or with too much.
    """
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json", "Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            content = response.read(ANSWER_LIMIT + 1)
    except urllib.error.HTTPError as error:
        message = error.read(_SAID_LIMIT).decode(errors="replace").strip()
        raise ValueError(f"{address} answers {error.code} {error.reason}: {message or 'no reason given'}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise ConnectionError(f"No server answers at {address} ({reason})") from error
    if len(content) > ANSWER_LIMIT:
        raise ValueError(f"{address} answers with more than {ANSWER_LIMIT:,} bytes.")
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{address} does not answer in JSON: {content[:80]!r}...") from error


def _part(answer: Any, *names: str) -> Any:
    """Returns a part of a server's answer, by its name and those of the parts around it.

    Raises:
        ValueError: If it is not there.
    """
    part = answer
    for name in names:
        if not isinstance(part, Mapping) or name not in part:
            raise ValueError(f"The server's answer has no {'.'.join(names)!r}: {json.dumps(answer):.{_SAID_LIMIT}}")
        part = part[name]
    return part


def at_address(address: str) -> RuntimeSpec | None:
    """Returns the runtime of a model behind an address: "http://host:8000/v2/models/NAME", ".../v1/models/NAME".

    Returns None for any other name.

    Raises:
        ValueError: If it is not the address of a model.
    """
    if not RuntimeName.parse(address).is_address:
        return None
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            "The address of a model must be http://HOST:PORT/v2/models/NAME for the Open Inference Protocol, or "
            f"http://HOST:PORT/v1/models/NAME for TensorFlow Serving. Received: {address!r}."
        )
    model, about = _PROTOCOLS[match[1]]
    return RuntimeSpec(
        address,
        "served",
        f"{__name__}:{model}",
        "",
        "start the server",
        {"address": address},
        by_default=False,
        find_missing=functools.partial(_missing, address.rstrip("/") + about),
    )


def _missing(address: str) -> str | None:
    try:
        exchange(address, timeout=_PATIENCE)
    except (ConnectionError, ValueError) as error:
        return f"a server that serves the model. {error}"
    return None


# NumPy's names of the protocol's types.
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
            path: Unused: the server has its own.
            address: Address of the model.
        """
        self._address = address.rstrip("/")
        about = exchange(self._address)
        self.inputs = tuple(
            tensor_info(entry["name"], entry["shape"], _DTYPES.get(entry["datatype"], entry["datatype"]))
            for entry in _part(about, "inputs")
        )
        server = exchange(self._address.partition("/v2/")[0] + "/v2")
        model = [about.get("platform"), *(f"version {version}" for version in (about.get("versions") or [])[-1:])]
        served = ", ".join(filter(None, model))
        self.version = f"{server.get('name') or 'server'} {server.get('version') or '?'}" + (served and f" ({served})")

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        question = {"inputs": [_tensor(name, array) for name, array in inputs.items()]}
        answer = exchange(f"{self._address}/infer", question)
        return {_part(entry, "name"): _array(entry) for entry in _part(answer, "outputs")}


def _tensor(name: str, array: Array) -> dict[str, Any]:
    dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
    if dtype not in _DATATYPES:
        raise ValueError(f"The protocol has no type for arrays of {dtype}. Received: {name!r}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        value = array[tuple(place)]
        raise ValueError(
            f"The Open Inference Protocol's JSON has neither NaN nor infinity: {name!r} must be finite. "
            f"Received: {value} at {place}. Check the file itself for such values."
        )
    data = array.ravel().tolist()
    return {"name": name, "shape": list(array.shape), "datatype": _DATATYPES[dtype], "data": data}


def _array(entry: Mapping[str, Any]) -> Array:
    dtype = _DTYPES.get(_part(entry, "datatype"))
    if dtype is None or "data" not in entry:
        raise ValueError(f"Output {entry['name']!r} of type {entry['datatype']} cannot be read from JSON.")
    return np.array(entry["data"], dtype=object if dtype == "string" else dtype).reshape(_part(entry, "shape"))


_SIGNATURE = "serving_default"
_FLOATS = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16"}  # the others have NumPy's names


class TensorFlowServingModel:
    """A model at an address such as `http://host:8501/v1/models/NAME`, or `.../NAME/versions/2`: `serving_default`."""

    def __init__(self, path: str | None, address: str) -> None:
        """Asks the server what it serves.

        Args:
            path: Unused: the server has its own.
            address: Address of the model.
        """
        self._address = address.rstrip("/")
        about = exchange(f"{self._address}/metadata")
        signature = _part(about, "metadata", "signature_def", "signature_def", _SIGNATURE)
        self.inputs = tuple(
            tensor_info(name, [int(dim["size"]) for dim in entry["tensor_shape"].get("dim", [])], _dtype(entry))
            for name, entry in sorted(signature["inputs"].items())
        )
        self._outputs = {name: _dtype(entry) for name, entry in sorted(signature["outputs"].items())}
        self.version = f"tensorflow-serving (model version {about['model_spec'].get('version') or '?'})"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        # TensorFlow Serving reads the tokens NaN and Infinity, which Python's JSON writes, as numbers.
        question = {"signature_name": _SIGNATURE, "inputs": {name: array.tolist() for name, array in inputs.items()}}
        outputs = _part(exchange(f"{self._address}:predict", question), "outputs")
        if len(self._outputs) == 1:  # a single one comes without its name
            outputs = dict.fromkeys(self._outputs, outputs)
        return {name: np.array(_part(outputs, name), as_dtype(dtype)) for name, dtype in self._outputs.items()}


def _dtype(entry: Mapping[str, Any]) -> str:
    dtype: str = entry["dtype"]
    return _FLOATS.get(dtype, dtype.removeprefix("DT_").lower())
