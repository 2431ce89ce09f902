"""Every encoding is what 50 digits make it, at positions to 2**24: within 2.5e-7, and half a unit in narrow types."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.far import inputs_of, layer_of, positions_of, returned_by, stored_cases, tolerance


def call_layer(case: dict[str, Any], dtype: str) -> np.ndarray:
    """Returns what the layer of a case returns at its positions, `(positions, columns)`."""
    layer, given = layer_of(case, dtype), positions_of(case)
    returned = returned_by(layer, case, inputs_of(case), given)
    assert keras.backend.standardize_dtype(returned.dtype) == layer.compute_dtype
    return ops.convert_to_numpy(ops.cast(returned, "float32")).astype("float64")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_encodings_are_exact_at_positions_to_two_to_the_24(dtype: str) -> None:
    for name, case, signal in stored_cases():
        returned = call_layer(case, dtype if dtype == "float32" else f"mixed_{dtype}")
        assert (np.abs(returned - signal) <= tolerance(case, signal, dtype)).all(), name
