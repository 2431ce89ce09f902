"""The script in another Python that runs sessions of ONNX Runtime, with requests from bridge.py.

This file runs by itself, in a Python with NumPy and ONNX Runtime. It imports nothing of its own package, and uses only
features of Python 3.9 and of older releases of the other two.
"""

import json
import platform
import sys
import urllib.request
from typing import Any, Optional

import numpy as np
import onnxruntime

LEVELS = {"disabled": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}
DTYPES = {"float": "float32", "double": "float64"}  # the others have NumPy's names

Header = dict[str, Any]
Arrays = dict[str, Any]

sessions: dict[str, Any] = {}


def unpack(message: bytes) -> tuple[Header, Arrays]:
    start = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:start].decode())
    arrays = {}
    for entry in header.pop("tensors"):
        if entry["dtype"] == "string":
            arrays[entry["name"]] = np.array(entry["strings"], dtype=object).reshape(entry["shape"])
            continue
        count = int(np.prod(entry["shape"], dtype=np.int64))
        array = np.frombuffer(message, entry["dtype"], count, start)
        arrays[entry["name"]] = array.reshape(entry["shape"])
        start += array.nbytes
    return header, arrays


def pack(header: Header, arrays: Arrays) -> bytes:
    entries, parts = [], []
    for name, array in arrays.items():
        entry = {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
        if array.dtype.kind in "OSU":
            entry.update(dtype="string", strings=[str(text) for text in array.ravel()])
        else:
            parts.append(np.ascontiguousarray(array).tobytes())
        entries.append(entry)
    head = json.dumps(dict(header, tensors=entries)).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])


def load(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    return {"version": onnxruntime.__version__, "host": f"Python {platform.python_version()}"}, {}


def open_session(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, "ORT_" + LEVELS[header["level"]])
    options.log_severity_level = 0  # only this log has the provider of each node
    source = header["file"] or fetch(header["model"])
    session = onnxruntime.InferenceSession(source, options, providers=[header["provider"]])
    sessions[header["session"]] = session
    inputs = []
    for argument in session.get_inputs():
        name = argument.type[len("tensor(") : -1]
        inputs.append([argument.name, DTYPES.get(name, name), argument.shape])
    return {"inputs": inputs, "device": ""}, {}


def run(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    session = sessions[header["session"]]
    names = header["fetches"] or [argument.name for argument in session.get_outputs()]
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    return {}, dict(zip(names, session.run(names, arrays, options)))  # noqa: B905 - Python 3.9


REQUESTS = {"import": load, "open": open_session, "run": run}


def answer(message: bytes) -> bytes:
    try:
        header, arrays = unpack(message)
        return pack(*REQUESTS[header["request"]](header, arrays))
    except Exception as error:  # whatever the runtime raises is an answer
        return pack({"error": f"{type(error).__name__}: {error}"}, {})


def fetch(name: str, body: Optional[bytes] = None) -> bytes:  # noqa: UP045 - Python 3.9
    with direct.open(home + name, body) as response:
        content: bytes = response.read()
    return content


def main() -> None:
    while True:
        try:
            message = fetch("next")
        except OSError:  # the bridge is gone
            return
        if message:
            fetch("answer", answer(message))


if __name__ == "__main__":
    home = sys.argv[1]
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy does not know this machine's bridge
    main()
