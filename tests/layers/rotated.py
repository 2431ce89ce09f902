"""Unit vectors at positions near and far, and whether what a rotary layer with base 5e5 made of them is exact."""

import numpy as np

CHANNELS = 64
EXACT = 2.5e-7
BITS = {"float32": None, "bfloat16": 8, "float16": 11}  # of a significand
_EDGES = np.array(
    [0, 1, 255, 511, 512, 513, 4_095, 65_535, 131_071, 131_072, 2**20, 2**23 + 1, 2**24 - 1, -1, -(2**24)]
)
_DRAWN = np.random.default_rng(24).integers(-(2**24), 2**24, 241)
POSITIONS = np.concatenate([_EDGES, _DRAWN]).astype("int32")[np.newaxis]
# Of each pair the first channel is 1: turned, they are the cosines, and the others the sines.
UNITS = np.zeros((1, POSITIONS.shape[1], 1, CHANNELS), "float32")
UNITS[..., : CHANNELS // 2] = 1.0


def check_rotated(turned: np.ndarray, dtype: str = "float32") -> None:
    """Raises unless what they became is within 2.5e-7, and in a narrow type half a unit in the last place."""
    angles = POSITIONS[..., np.newaxis, np.newaxis] * 5e5 ** (-np.arange(CHANNELS // 2) / (CHANNELS // 2))
    exact = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)
    allowed = np.full_like(exact, EXACT)
    if BITS[dtype] is not None:
        _, exponent = np.frexp(np.abs(exact) + EXACT)
        allowed += 2.0 ** (np.maximum(exponent, -13) - 1 - BITS[dtype])  # float16 ends at 2**-14
    assert (np.abs(turned - exact) <= allowed).all(), np.abs(turned - exact).max()
