"""The runtimes behind an address, by the address, and how it is asked."""

import functools
import http.client
import json
import re
import urllib.error
import urllib.request
from typing import Any

from keras_pe.export import RuntimeSpec
from keras_pe.export.runtimes import RuntimeName

ANSWER_LIMIT = 2**30  # bytes
_SAID_LIMIT = 500  # characters of what a server says of an error

_HOME = "keras_pe.export.runtimes.served"
_PROTOCOLS = {
    "v2": (f"{_HOME}.open_inference:OpenInferenceModel", ""),
    "v1": (f"{_HOME}.tensorflow_serving:TensorFlowServingModel", "/metadata"),
}
_ADDRESS = re.compile(r"https?://[^/\s]+(?:/[^/\s]+)*?/(v[12])/models/[^/\s:]+(?:/versions/[^/\s:]+)?/?")
_PATIENCE = 10.0  # seconds for a server's first word


def exchange(address: str, question: Any = None, timeout: float = 600.0) -> Any:
    """Returns what a server answers: to a GET, or with a question to a POST.

    Args:
        address: Of the server.
        question: What to send.
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
        said = error.read(_SAID_LIMIT).decode(errors="replace").strip()
        raise ValueError(f"{address} answers {error.code} {error.reason}: {said or 'no reason given'}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise ConnectionError(f"No server answers at {address} ({reason})") from error
    if len(content) > ANSWER_LIMIT:
        raise ValueError(f"{address} answers with more than {ANSWER_LIMIT:,} bytes.")
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{address} does not answer in JSON: {content[:80]!r}...") from error


def at_address(address: str) -> RuntimeSpec | None:
    """Returns the runtime of a model behind an address: "http://host:8000/v2/models/NAME", ".../v1/models/NAME".

    None of a name that is no address.

    Raises:
        ValueError: If it is no address of a model.
    """
    if not RuntimeName.parse(address).is_address:
        return None
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            "The address of a model must be http://HOST:PORT/v2/models/NAME for the Open Inference Protocol, or "
            f"http://HOST:PORT/v1/models/NAME for TensorFlow Serving. Received: {address!r}."
        )
    factory, about = _PROTOCOLS[match[1]]
    return RuntimeSpec(
        address,
        "served",
        factory,
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
