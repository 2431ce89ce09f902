"""The inputs of the survey: small arrays that hold what goes wrong, such as signs, zeros, ties and infinities."""

import numpy as np

_RANDOM = np.random.default_rng(0)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Returns float32 normals, the first entries replaced by values at which functions bend."""
    values = _RANDOM.normal(size=shape, scale=scale).astype("float32")
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0], "float32")[: values.size]
    values.reshape(-1)[: special.size] = special
    return values


REAL = normal(4, 3, 6, scale=2.0)
OTHER = normal(4, 3, 6)[::-1].copy()
POSITIVE = np.abs(normal(4, 3, 6)) + np.float32(0.1)
UNIT = np.clip(normal(4, 3, 6) / 4, -0.99, 0.99).astype("float32")
WILD = np.array([[0.0, -0.0, np.inf], [-np.inf, np.nan, 1.5], [-2.5, 3e38, -1e-37]], "float32")
INTEGERS = np.array([[-7, 3, 0], [7, -3, 5], [2**31 - 1, -(2**31), 1], [-1, 8, -6]], "int32")
DIVISORS = np.array([[3, -2, 5], [-4, 7, -1], [10, 3, 1], [2, -3, 6]], "int32")
COUNTS = np.array([[3, 0, 5], [2, 2, 1], [4, 1, 0], [1, 3, 2]], "int32")
TRUTHS = np.array([[True, False, True], [False, False, False], [True, True, True], [False, True, False]])
OTHER_TRUTHS = np.array([[True, True, False], [False, True, False], [True, True, True], [True, False, False]])
VECTOR = normal(12)
SQUARE = normal(4, 3, 3) + 3 * np.eye(3, dtype="float32")
DEFINITE = (SQUARE @ SQUARE.transpose(0, 2, 1)).astype("float32")
IMAGES = np.abs(normal(2, 8, 8, 3)) % np.float32(1.0)
SIGNAL = normal(3, 32)
