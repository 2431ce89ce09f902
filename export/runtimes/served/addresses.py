"""The runtimes behind an address, by the address."""

import functools
import re

from keras_pe.export import RuntimeSpec
from keras_pe.export.runtimes import RuntimeName
from keras_pe.export.runtimes.served.exchange import exchange

_HOME = "keras_pe.export.runtimes.served"
_PROTOCOLS = {
    "v2": (f"{_HOME}.open_inference:OpenInferenceModel", ""),
    "v1": (f"{_HOME}.tensorflow_serving:TensorFlowServingModel", "/metadata"),
}
_ADDRESS = re.compile(r"https?://[^/\s]+(?:/[^/\s]+)*?/(v[12])/models/[^/\s:]+(?:/versions/[^/\s:]+)?/?")
_PATIENCE = 10.0  # seconds for a server's first word


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
