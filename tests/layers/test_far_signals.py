"""Every encoding is what 50 digits make it, at positions to 2**24: within 2.5e-7, and half a unit in narrow types."""

import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_pe
from tests.golden.far_signals import CHANNELS, RETURNED
from tests.layers.configurations import EXACT
from tests.layers.rotated import half_a_unit


def called(case: dict[str, Any], dtype: str) -> np.ndarray:
    """Returns what the layer of a case returns at its positions, `(positions, columns)`."""
    layer = getattr(keras_pe, case["layer"])(**case["arguments"], dtype=dtype)
    given = [np.array(each, "float64" if isinstance(each[0], float) else "int32") for each in case["positions"]]
    x = np.zeros((1, len(given[0]), CHANNELS), "float32")
    if case["layer"] == "TimestepEmbedding":
        returned = layer(given[0])
    elif case["layer"] == "AlibiBias":
        returned = ops.transpose(layer(x, x[:, :1], positions=given[0])[0, :, :, 0])
    elif "coordinates" in case["arguments"]:
        returned = layer(x)[0]
    else:
        if case["layer"] == "RotaryPositionEncoding":
            x[..., : CHANNELS // 2] = 1.0  # turned, they are the cosines, and the others the sines
        returned = layer(x, positions=given if len(given) > 1 else given[0])[0]
    assert keras.backend.standardize_dtype(returned.dtype) == layer.compute_dtype
    return ops.convert_to_numpy(ops.cast(returned, "float32")).astype("float64")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_encodings_are_exact_at_positions_to_two_to_the_24(dtype: str) -> None:
    with np.load(RETURNED) as file:
        cases = json.loads(str(file["cases"]))
        signals = {name: file[name] for name in cases}
    for name, case in cases.items():
        size = np.abs(signals[name])
        # A bias is a slope times a distance, of any size. What turns has one length, a scaling's factor. That of "xpos"
        # is a power for each pair, which is rounded once more, as is the product with it.
        if case["arguments"].get("scaling", {}).get("rope_type") == "xpos":
            close = (EXACT + 2 * 2.0**-24) * np.tile(np.hypot(*np.split(size, 2, axis=1)), 2)
        else:
            close = EXACT * (size if case["layer"] == "AlibiBias" else size.max())
        returned = called(case, dtype if dtype == "float32" else f"mixed_{dtype}")
        allowed = close + half_a_unit(size + close, dtype)
        assert (np.abs(returned - signals[name]) <= allowed).all(), name
