"""The mixed base in which a position is written: `unit + UNITS * (middle + MIDDLES * top)`."""

from typing import Any

import keras
from keras import ops

LIMIT = 2**24  # positions are exact from -LIMIT to LIMIT - 1
UNITS, MIDDLES = 512, 256


def divide(numbers: Any, divisor: int) -> tuple[Any, Any]:
    """Returns quotients and remainders of int32 tensors and a power of two; what is negative is a multiple of it."""
    if keras.config.backend() == "jax":
        import jax

        # Keras' export to ONNX on JAX knows no remainder of a length that is not known.
        quotients = jax.lax.div(numbers, jax.numpy.int32(divisor))
        return quotients, numbers - quotients * divisor
    rest = ops.mod(numbers, divisor)
    return quotient(numbers - rest, divisor), rest


def quotient(multiples: Any, divisor: int) -> Any:
    """Returns the quotients of int32 multiples of a power of two.

    ONNX rounds the quotient of integers to zero, and rounding it down takes many operators. That of floats is exact:
    a multiple has few digits.
    """
    return ops.cast(ops.cast(multiples, "float32") * (1 / divisor), "int32")
