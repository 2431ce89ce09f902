"""Reads JSON records in the metadata of an artifact, which may be damaged or from another program."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

_Record = TypeVar("_Record")


def read_record(text: str, read: Callable[[Any], _Record], name: str) -> _Record:
    """Returns what a function reads from a JSON text.

    Args:
        text: The JSON.
        read: Returns the record from the parsed JSON. It may raise any error for a damaged record.
        name: The name of the record in the error, such as "sizes".

    Raises:
        ValueError: With the end of a sentence about the artifact, if the text is not such a record.
    """
    try:
        return read(json.loads(text))
    except Exception as error:  # A damaged record may have values of any type, nested to any depth.
        raise ValueError(f"has {name} that cannot be read ({type(error).__name__}: {error}).") from error
