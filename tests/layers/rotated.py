"""Unit vectors at positions near and far, and whether what a rotary layer with base 5e5 made of them is exact."""

import numpy as np

CHANNELS = 64
EXACT = 2.5e-7
BITS = {"float32": None, "bfloat16": 8, "float16": 11}  # bits of a significand
_EDGES = np.array(
    [0, 1, 255, 511, 512, 513, 4_095, 65_535, 131_071, 131_072, 2**20, 2**23 + 1, 2**24 - 1, -1, -(2**24)]
)
_DRAWN = np.random.default_rng(24).integers(-(2**24), 2**24, 241)
POSITIONS = np.concatenate([_EDGES, _DRAWN]).astype("int32")[np.newaxis]
# The first channel of each pair is 1: rotated, they are the cosines, and the others the sines.
UNITS = np.zeros((1, POSITIONS.shape[1], 1, CHANNELS), "float32")
UNITS[..., : CHANNELS // 2] = 1.0


def check_rotated(turned: np.ndarray, dtype: str = "float32") -> None:
    """Raises unless what they became is within 2.5e-7, and in a narrow type half a unit in the last place."""
    angles = POSITIONS[..., np.newaxis, np.newaxis] * 5e5 ** (-np.arange(CHANNELS // 2) / (CHANNELS // 2))
    exact = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)
    allowed = EXACT + half_a_unit(np.abs(exact) + EXACT, dtype)
    assert (np.abs(turned - exact) <= allowed).all(), np.abs(turned - exact).max()


def half_a_unit(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Returns what positive numbers lose at most that are rounded to a narrow type, nothing in float32."""
    bits = BITS[dtype]
    if bits is None:
        return np.zeros_like(numbers)
    _, exponent = np.frexp(numbers)
    lost = 2.0 ** (np.maximum(exponent, -13) - 1.0 - bits)  # float16 begins at 2**-14
    return np.where((numbers > 65_504) & (dtype == "float16"), np.inf, lost)  # and ends there
