"""Known values of inputs as an artifact keeps them in its metadata."""

import json
from typing import Any

import numpy as np

from keras_pe.export.model.watch.known_values import Array, KnownValues


def values_to_json(values: KnownValues) -> str:
    """Returns the ranges and the examples."""
    examples = [{name: _written(np.asarray(array)) for name, array in each.items()} for each in values.examples]
    return json.dumps({"ranges": {name: list(ends) for name, ends in values.ranges.items()}, "examples": examples})


def values_from_json(text: str) -> KnownValues:
    """Returns what `values_to_json` wrote.

    Raises:
        ValueError: If the text is something else.
    """
    try:
        content = json.loads(text)
        ranges = {str(name): (float(low), float(high)) for name, (low, high) in content["ranges"].items()}
        examples = tuple({name: _read(one) for name, one in each.items()} for each in content["examples"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"has values that cannot be read ({type(error).__name__}: {error}).") from error
    return KnownValues(ranges=ranges, examples=examples)


def _written(array: Array) -> dict[str, Any]:
    dtype = "string" if array.dtype.kind in "OUS" else array.dtype.name
    return {"dtype": dtype, "shape": array.shape, "values": array.reshape(-1).tolist()}


def _read(written: dict[str, Any]) -> Array:
    dtype = written["dtype"]
    return np.array(written["values"], object if dtype == "string" else dtype).reshape(written["shape"])
