"""One question and one answer in JSON over HTTP, bounded in time and size."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

ANSWER_LIMIT = 2**30  # bytes
_SAID_LIMIT = 500  # characters of what a server says of an error


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
