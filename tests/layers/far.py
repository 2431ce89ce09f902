"""The encodings at positions to 2**24 that are stored: how each is called, and how near it must come."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

import keras_pe
from tests.golden.far_signals import CHANNELS, RETURNED
from tests.layers.configurations import EXACT
from tests.layers.rotated import half_a_unit


def stored_cases() -> Iterator[tuple[str, dict[str, Any], np.ndarray]]:
    """Yields the name of each case, its call, and its value to 50 digits."""
    with np.load(RETURNED) as file:
        for name, case in json.loads(str(file["cases"])).items():
            yield name, case, file[name]


def layer_of(case: dict[str, Any], dtype: str) -> Any:
    """Returns the layer of a case."""
    return getattr(keras_pe, case["layer"])(**case["arguments"], dtype=dtype)


def positions_of(case: dict[str, Any]) -> list[np.ndarray]:
    """Returns the positions of each axis."""
    return [np.array(each, "float64" if isinstance(each[0], float) else "int32") for each in case["positions"]]


def inputs_of(case: dict[str, Any]) -> np.ndarray:
    """Returns the inputs: queries whose turned channels are the cosines, then the sines, and zeros else."""
    x = np.zeros((1, len(case["positions"][0]), CHANNELS), "float32")
    if case["layer"] == "RotaryPositionEncoding":
        x[..., : CHANNELS // 2] = 1.0
    return x


def returned_by(layer: Any, case: dict[str, Any], x: Any, given: Sequence[Any]) -> Any:
    """Returns what a layer returns of arrays or of symbols, `(positions, columns)`."""
    if case["layer"] == "TimestepEmbedding":
        return layer(given[0])
    if case["layer"] == "AlibiBias":
        return ops.transpose(layer(x, x[:, :1], positions=given[0])[0, :, :, 0])
    if "coordinates" in case["arguments"]:
        return layer(x)[0]
    return layer(x, positions=list(given) if len(given) > 1 else given[0])[0]


def tolerance(case: dict[str, Any], signal: np.ndarray, dtype: str) -> np.ndarray:
    """Returns how far a value may be from what 50 digits make it."""
    size = np.abs(signal)
    # A bias is a slope times a distance, of any size. A rotation has one length, a scaling's factor. The factor of
    # "xpos" is a power for each pair, which is rounded once more, as is the product with it.
    if case["arguments"].get("scaling", {}).get("rope_type") == "xpos":
        close = (EXACT + 2 * 2.0**-24) * np.tile(np.hypot(*np.split(size, 2, axis=1)), 2)
    else:
        close = EXACT * (size if case["layer"] == "AlibiBias" else size.max())
    return np.asarray(close + half_a_unit(size + close, dtype))
