"""A local server from which a script in another program fetches requests, one at a time.

The script requests its work, so that Node, a page in any browser and another Python all take part in the same way. No
host needs a protocol of its own.
"""

import contextlib
import json
import math
import queue
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.runtimes import Array, Arrays, RuntimeDiedError, RuntimeRefusedError

Header = dict[str, Any]

_POLL = 0.2  # seconds between two looks at the script's process
_LONG_POLL = 20.0  # seconds that a script waits for a request before it asks again
_SCRIPT = "text/javascript"
_TYPES = {".html": "text/html; charset=utf-8", ".js": _SCRIPT, ".mjs": _SCRIPT, ".wasm": "application/wasm"}


def pack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Returns a message.

    Raises:
        ValueError: If an array's type has no place in a message, such as bfloat16.
    """
    tensors, buffers = [], []
    for name, array in arrays.items():
        entry: Header = {"name": name, "dtype": _dtype_name(name, array), "shape": list(array.shape)}
        if entry["dtype"] == "string":
            entry["strings"] = [_text(value) for value in array.ravel().tolist()]
        else:
            buffers.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        tensors.append(entry)
    head = json.dumps({**header, "tensors": tensors}).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, *buffers])


def unpack(message: bytes) -> tuple[Header, Arrays]:
    """Returns the header and the arrays of a message.

    Raises:
        ValueError: If it is shorter than its header says.
    """
    start = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:start])
    arrays: Arrays = {}
    for entry in header.pop("tensors"):
        shape = tuple(entry["shape"])
        if entry["dtype"] == "string":
            arrays[entry["name"]] = np.array(entry["strings"], dtype=object).reshape(shape)
            continue
        dtype = np.dtype(entry["dtype"]).newbyteorder("<")
        count = math.prod(shape)
        arrays[entry["name"]] = np.frombuffer(message, dtype, count, start).reshape(shape).astype(entry["dtype"])
        start += count * dtype.itemsize
    return header, arrays


def _dtype_name(name: str, array: Array) -> str:
    if array.dtype.kind in "OSU":
        return "string"
    if array.dtype.kind not in "fiub":
        raise ValueError(f"An array of type {array.dtype.name} cannot be sent. Received: {name!r}.")
    return array.dtype.name


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


class Bridge:
    """Requests on one side, a script's answers on the other.

    Attributes:
        url: The address for the script. It holds a secret: another process of this machine does not know it.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Starts the server.

        Args:
            files: Files that the script may fetch: a file, or a folder of files, by the first part of its address.
        """
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[bytes | RuntimeDiedError] = queue.SimpleQueue()
        self._shared: dict[str, Path | bytes] = dict(files)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._token = secrets.token_urlsafe(16)
        self.url = f"http://127.0.0.1:{self._server.server_port}/{self._token}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()

    def share(self, name: str, content: Path | bytes) -> str:
        """Lets the script fetch something more. Returns its address, relative to `url`."""
        self._shared[name] = content
        return name

    def ask(
        self, request: Header, arrays: Mapping[str, Array], ended: Callable[[], str | None]
    ) -> tuple[Header, Arrays]:
        """Returns the script's answer.

        Args:
            request: Name of the operation.
            arrays: Arrays of the operation.
            ended: Says how the script's process has ended, None while it runs.

        Raises:
            RuntimeRefusedError: With the script's own message.
            RuntimeDiedError: If the script, its page or its device is gone.
        """
        self._requests.put(pack(request, arrays))
        while True:
            try:
                event = self._events.get(timeout=_POLL)
            except queue.Empty:
                if (how := ended()) is not None:
                    raise RuntimeDiedError(how) from None
                continue
            if isinstance(event, RuntimeDiedError):
                raise event
            answer, outputs = unpack(event)
            if "error" in answer:
                raise RuntimeRefusedError(answer["error"])
            return answer, outputs

    def find(self, address: str) -> tuple[str, Path | bytes] | None:
        """Returns the name and content of what may be fetched at an address, None if there is nothing."""
        token, _, rest = address.partition("?")[0].lstrip("/").partition("/")
        name, _, inner = rest.partition("/")
        content = self._shared.get(name)
        if not secrets.compare_digest(token, self._token) or content is None:
            return None
        if isinstance(content, bytes) or not inner:
            return rest, content
        path = (content / inner).resolve()
        return (rest, path) if path.is_relative_to(content.resolve()) and path.is_file() else None

    def next_request(self) -> bytes | None:
        """Returns the next request, None if no request comes for a while."""
        with contextlib.suppress(queue.Empty):
            return self._requests.get(timeout=_LONG_POLL)
        return None

    def tell(self, event: bytes | RuntimeDiedError) -> None:
        """Takes an answer, or that there will be none."""
        self._events.put(event)

    def is_own(self, address: str, name: str) -> bool:
        """Whether an address is one of the script's questions."""
        return secrets.compare_digest(address.lstrip("/"), f"{self._token}/{name}")


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of a connection that ends: who ended it is known elsewhere."""


def _handler(bridge: Bridge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """GET next, alive, or a file; POST answer, or died."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if bridge.is_own(self.path, "next"):
                request = bridge.next_request()
                self._send(HTTPStatus.NO_CONTENT if request is None else HTTPStatus.OK, request or b"")
            elif bridge.is_own(self.path, "alive"):
                self._watch()
            elif (found := bridge.find(self.path)) is not None:
                self._send_content(*found)
            else:
                self._send(HTTPStatus.NOT_FOUND, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if bridge.is_own(self.path, "answer"):
                bridge.tell(body)
            elif bridge.is_own(self.path, "died"):
                bridge.tell(RuntimeDiedError(body.decode()))
            self._send(HTTPStatus.NO_CONTENT, b"")

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

        def _watch(self) -> None:
            """Holds the connection until the page is gone: a page that crashed closes it."""
            self.rfile.read(1)
            bridge.tell(RuntimeDiedError("the page crashed or was closed"))

        def _send(self, status: HTTPStatus, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _send_content(self, name: str, content: Path | bytes) -> None:
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _TYPES.get(Path(name).suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if isinstance(content, bytes):
                self.wfile.write(content)
            else:
                with content.open("rb") as file:
                    shutil.copyfileobj(file, self.wfile)

    return Handler
